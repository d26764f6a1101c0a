"""Preferences: pairs in a file, a reference that is computed once, and margins that grow on pairs nobody trained on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, no_grad
from minigrad.constants import IGNORE
from minigrad.finetuning import preferences
from minigrad.finetuning.objectives import BETA, CHOSEN
from minigrad.finetuning.preferences import Pair, PreferenceLearning, read_preferences
from minigrad.training.settings import RunSettings
from tests.finetuning.conftest import TOK
from tests.finetuning.test_rewards import EVERY, build
from tokenizer.chat import ChatTemplate


def line(chosen: Any = "yes", rejected: Any = "no", asked: str = "b?") -> str:
    messages = [{"role": "user", "content": asked}]
    return json.dumps({"messages": messages, "chosen": chosen, "rejected": rejected})


def read(folder: Path, *lines: str, context: int = 64) -> list[Pair]:
    path = folder / "pairs.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_preferences(path, ChatTemplate(TOK), context)


def test_a_pair_has_one_prompt_and_two_answers_with_their_ends(tmp_path: Path) -> None:
    (pair,) = read(tmp_path, line())
    end, ask = TOK.specials["<|end|>"], TOK.specials["<|assistant|>"]
    assert pair.prompt == [TOK.specials["<|user|>"], *TOK.encode("b?"), end, ask]
    assert (pair.chosen, pair.rejected) == ([*TOK.encode("yes"), end], [*TOK.encode("no"), end])
    assert pair.length == 2 * 5 + 4 + 3 - 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line(), line(rejected="")], "line 2 lacks one of the answers"),
        ([line(chosen=None)], "line 1 lacks one of the answers"),
        ([line(), "oops"], "line 2 is not a JSON object"),
        ([line(chosen="no")], "line 1: the chosen answer and the rejected one are the same"),
        ([line(asked="")], "line 1: message 1, of the user, is empty"),
        (['{"chosen": "a", "rejected": "b"}'], "line 1 has no messages"),
        ([line(chosen="x" * 90)], "line 1: the conversation has 96 tokens, and --context is 64"),
        ([""], "holds no pair of answers"),
    ],
)
def test_what_is_no_pair_is_named_with_its_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, *lines)
    assert message in str(caught.value)


def learning(pairs: list[Pair], reference: Callable[[], Any] = build) -> PreferenceLearning:
    settings = RunSettings(
        objective="dpo", data="pairs.jsonl", batch=8, context=64, lr=1.0, warmup=1, threads=1, **EVERY
    )
    return PreferenceLearning(settings, pairs, ChatTemplate(TOK), reference)


def test_every_tenth_question_is_held_out_with_all_its_pairs(tmp_path: Path) -> None:
    asked = "abcdefghijka" + "jlmnopqrstuv"  # a and j twice; j is the tenth, and t the twentieth
    pairs = read(tmp_path, *(line(chosen=f"yes {n}", asked=letter) for n, letter in enumerate(asked)))
    some = learning(pairs)
    assert some.held_out == [pairs[9], pairs[12], pairs[21]]
    assert some.pairs == [pair for pair in pairs if pair not in some.held_out]
    assert some.summary() == "21 pairs of answers in pairs.jsonl, 3 more are held out"


def test_a_file_with_few_questions_leaves_no_pair_to_hold_out(tmp_path: Path) -> None:
    pairs = read(tmp_path, *(line(asked=chr(97 + number % 9)) for number in range(30)))
    some = learning(pairs)
    assert (some.pairs, some.held_out) == (pairs, [])
    assert some.summary().endswith("in pairs.jsonl; with fewer than 10 different questions none is held out")


def test_log_probabilities_are_the_same_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = read(tmp_path, *(line(chosen="yes " * (1 + number % 3), asked=chr(97 + number)) for number in range(7)))
    whole = preferences._log_probs_of(build(), pairs)
    monkeypatch.setattr(preferences, "_TOGETHER", 3)
    for parts, at_once in zip(preferences._log_probs_of(build(), pairs), whole, strict=True):
        np.testing.assert_allclose(parts, at_once, rtol=1e-5)


def test_the_weights_of_a_step_are_those_of_dpo_against_the_frozen_reference(tmp_path: Path) -> None:
    pairs = read(tmp_path, *(line(asked=chr(97 + number)) for number in range(11)))
    some = learning(pairs)
    assert (len(some.pairs), len(some.held_out)) == (10, 1)
    assert some.summary() == "10 pairs of answers in pairs.jsonl, 1 more are held out"
    assert some.tokens_before(3, seed=0, batch_size=8) == 3 * some.tokens_per_pass(8)
    assert some.describe(8) == ": about 10 pairs of answers"
    assert some.attended_length() == pairs[0].length / 2
    assert some.fingerprint() != learning(pairs[:5]).fingerprint()
    model: Any = build()
    with no_grad():
        model.head()[0] += 1.0
    assert some.fingerprint() != learning(pairs, lambda: model).fingerprint()
    model = build()
    some.begin(model)
    batch = some.batch(seed=0, step=0, batch_size=8)
    assert batch.weights is not None
    counted = batch.targets != IGNORE
    signs = np.sign(batch.weights[counted])
    steps = signs * BETA / 2 / 10 + (signs > 0) * CHOSEN / 4 / 10  # every margin is 0, and each answer has 4 tokens
    np.testing.assert_allclose(batch.weights[counted], batch.num_targets * steps, rtol=1e-4)
    assert (batch.weights[counted] > 0).sum() == 10 * 4
    with no_grad():
        model.head()[...] = 0.5 * model.head().data
    moved = some.batch(seed=0, step=0, batch_size=8)
    assert moved.weights is not None
    assert np.abs(moved.weights - batch.weights).max() > 1e-3
