"""Learning by rewards: what is rewarded, how much a step asks, and a reference that does not learn with the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import models
from minigrad import InputError, no_grad
from minigrad.constants import IGNORE
from minigrad.evaluate import answers
from minigrad.finetuning import rewards
from minigrad.finetuning.encoding import questions_of
from minigrad.finetuning.rewards import GROUP, RewardLearning
from minigrad.finetuning.rollouts import Rollouts
from minigrad.finetuning.tasks import Problem
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.training.settings import RunSettings
from tests.finetuning.conftest import TOK
from tests.small_runs import TINY
from tokenizer.chat import ChatTemplate

EVERY = dict.fromkeys(("log_every", "eval_every", "save_every", "sample_every"), 10)
END, EOT = TOK.specials["<|end|>"], TOK.specials["<|endoftext|>"]


def build(**changes: Any) -> LanguageModel:
    shape = {name: getattr(TINY, name) for name in ("num_layers", "width", "num_heads", "num_kv_heads", "head_dim")}
    return models.build("vidya-v2", vocab_size=261, feed_forward=64, dropout=0.0, **shape, **changes)


def practice(objective: str = "grpo", task: str = "copying", context: int = 64) -> RewardLearning:
    settings = RunSettings(objective=objective, batch=8, context=context, lr=1.0, warmup=1, threads=1, **EVERY)
    text: Any = SimpleNamespace(tokenizer=TOK)
    return RewardLearning(settings, task, ChatTemplate(TOK), text, build)


def test_an_answer_is_rewarded_if_it_is_right_and_has_ended() -> None:
    said = {"5": END, "5 ": END, "55": END, "": END}
    answers = [[*TOK.encode(text), end] for text, end in said.items()] + [TOK.encode("5"), [*TOK.encode("5"), EOT]]
    answers += [[END]] * (GROUP - len(answers))
    rollouts = Rollouts([[1]] * GROUP, answers, np.zeros(sum(map(len, answers))))
    rewards = practice()._rewards([Problem("2 + 3 =", "5")], rollouts)
    assert rewards.tolist() == [1, 1, 0, 0, 0, 1, *[0] * (GROUP - 6)]


@pytest.mark.parametrize(("space", "end", "exact"), [("", END, True), (" ", END, True), ("", 5, False)])
def test_an_examination_judges_as_the_reward_does(
    monkeypatch: pytest.MonkeyPatch, space: str, end: int, exact: bool
) -> None:
    """An answer of other tokens than expected is right if its text is: rewards may well lead to these tokens."""
    some = practice()
    (each,) = questions_of(some._examined()[:1])
    answer = TOK.encode(space + each.answer)

    def stream(model: object, prompts: list[list[int]], settings: Sampling, **_: object) -> Iterator[Any]:
        for token in [*answer, end][: settings.tokens]:
            yield type("Drawn", (int,), {"prompt": 0})(token)

    monkeypatch.setattr(answers, "stream", stream)
    model: Any = None
    (found,) = answers.ask(model, TOK, [each], some._judge)
    assert found.exact is exact
    (strict,) = answers.ask(model, TOK, [each])
    assert strict.exact is (exact and not space)


def test_a_step_asks_as_much_as_it_has_room_for() -> None:
    some = practice()
    room = some.most_prompt + some.most_answer
    assert some._questions(8) == 8 * 64 // (GROUP * room) > 1
    assert some._questions(1) == 1
    assert some.tokens_before(3, seed=0, batch_size=8) == 3 * some.tokens_before(1, seed=0, batch_size=8) <= 3 * 8 * 64
    assert some.describe(8) == f": {some._questions(8)} questions with {GROUP} answers each"
    assert some.attended_length() == room
    assert f"up to {some.most_answer} tokens" in some.summary()


def test_each_step_asks_other_questions_and_draws_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    some, asked, drawn = practice("reinforce"), list[tuple[int, ...]](), list[tuple[int, int]]()
    some.model = build()

    def answer(model: object, prompts: list[list[int]], *, group: int, seed: int, step: int, **_: object) -> Rollouts:
        asked.extend(map(tuple, prompts))
        drawn.append((seed, step))
        count = len(prompts) * group
        return Rollouts([prompt for prompt in prompts for _ in range(group)], [[END]] * count, np.zeros(count))

    monkeypatch.setattr(rewards, "roll_out", answer)
    steps = [(0, 0), (0, 1), (0, 2), (1, 0)]
    for seed, step in steps:
        some.batch(seed=seed, step=step, batch_size=8)
    assert drawn == steps
    assert len(set(asked)) > 0.9 * len(asked)


def test_a_context_without_room_is_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"a question of facts with its answer has \d+ tokens, and --context is 32: take a --context of at least",
    ):
        practice(task="facts", context=32)


def test_the_fingerprint_is_that_of_the_problems_and_of_the_reference() -> None:
    assert practice("best-of-n").fingerprint() == practice("reinforce").fingerprint()
    assert practice().fingerprint() == practice().fingerprint() != practice(task="sorting").fingerprint()
    changed, other = practice(), build()
    with no_grad():
        other.head()[0] += 1.0
    changed.make_reference = lambda: other
    assert changed.fingerprint() != practice().fingerprint()


@pytest.mark.parametrize(("objective", "share"), [("reinforce", 0.0), ("best-of-n", 0.0), ("grpo", 1.0)])
def test_grpo_alone_has_a_reference_which_reads_every_answer(objective: str, share: float) -> None:
    some = practice(objective)
    assert some.read_by_teacher == share
    assert (some.teacher is not None) == (objective == "grpo")
    some.begin(build())


def test_the_reference_of_grpo_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the model learns, the reference stays what it was, in memory of its own; the loss notices the difference."""
    some = practice()
    some.model, reference = build(), build()
    some.make_reference = lambda: reference
    # The rewards of the first question differ; of the others only the divergence is left, and that is 0 at first.
    monkeypatch.setattr(some, "_rewards", lambda _, rollouts: (np.arange(len(rollouts.answers)) == 0).astype(float))
    begin = some.batch(seed=0, step=0, batch_size=8)
    assert begin.weights is not None
    assert some.reward == (1 / (GROUP * some._questions(8)), True)
    first = begin.layout.offsets[GROUP]
    assert np.abs(begin.weights[:first]).max() > 0.1
    np.testing.assert_allclose(begin.weights[first:], 0, atol=1e-4)
    with no_grad():
        for parameter in some.model.parameters():
            parameter[...] = 1.2 * parameter.data
    now = some.batch(seed=0, step=0, batch_size=8)
    assert now.weights is not None
    first = now.layout.offsets[GROUP]
    assert np.abs(now.weights[first:][now.targets[first:] != IGNORE]).max() > 1e-3


def test_equal_rewards_teach_nothing_not_even_the_distance_from_the_reference() -> None:
    some = practice()
    some.model, reference = build(), build()
    some.make_reference = lambda: reference
    with no_grad():
        for parameter in some.model.parameters():
            parameter[...] = 1.2 * parameter.data
    batch = some.batch(seed=0, step=0, batch_size=8)
    assert some.reward == (0, False)  # of answers drawn at random
    assert not batch.teaches


def test_answers_end_where_the_context_does() -> None:
    """The room for answers was measured with other questions: a practice question may be longer."""
    some = practice("reinforce", "brackets")
    some.begin(build())
    some.settings = replace(some.settings, context=some.most_prompt + 3)
    lengths = [some.batch(seed=0, step=step, batch_size=8).layout.lengths.max() for step in range(10)]
    assert max(lengths) == some.settings.context


def test_a_token_that_the_tokenizer_does_not_know_is_wrong() -> None:
    rollouts = Rollouts([[1]] * GROUP, [[TOK.vocab_size + 1, END]] * GROUP, np.zeros(2 * GROUP))
    assert not practice()._rewards([Problem("2 + 3 =", "5")], rollouts).any()
