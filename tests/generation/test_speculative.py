"""Speculative decoding: greedy texts are those of the model alone, and drawn ones have its distribution."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
import tokenizer
from minigrad.generation import speculative
from minigrad.generation.continuation import Continuation, DrawingRules
from minigrad.generation.decoding import stream
from minigrad.generation.sampling import distribution, draw
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from tests.models import tiny

FREE: dict[str, Any] = {"end_ids": (), "temperature": 1.0, "top_p": None}
# Pairs of a model and a smaller one; the second of a family guesses well, because it is the model with noise.
FAMILIES = [*tiny.TINY, "wiola merging"]


def build(family: str, noise: float = 0.0) -> LanguageModel:
    merging = {"atm": "first", "atm_threshold": 0.8, "atm_at_generation": True} if family.endswith("merging") else {}
    model = tiny.build(family.split()[0], "float64", **merging)
    rng = np.random.default_rng(5)
    for parameter in model.parameters():
        parameter.data = parameter.data + noise * rng.normal(size=parameter.shape)
    return model


@pytest.mark.parametrize("family", FAMILIES)
@given(
    seed=st.integers(0, 99),
    length=st.integers(1, 30),
    draft_tokens=st.integers(1, 9),
    noise=st.sampled_from([0.0, 0.05, 1.0]),
    penalty=st.sampled_from([1.0, 1.5]),
)
@settings(max_examples=6)
def test_a_greedy_text_is_that_of_the_model_alone(family, seed, length, draft_tokens, noise, penalty):
    """Within the context and beyond it, with drafts that guess always, often and seldom."""
    model, draft = build(family), build(family, noise)
    prompt = tiny.tokens(seed, 1, length)[0].tolist()
    options = FREE | {"tokens": 30, "temperature": 0.0, "repetition_penalty": penalty, "end_ids": [3]}
    alone = list(stream(model, prompt, **options))
    drafted = list(stream(model, prompt, draft=draft, draft_tokens=draft_tokens, **options))
    assert drafted == alone
    assert [token.ended for token in drafted] == [token.ended for token in alone]
    assert [token.position for token in drafted] == list(range(len(alone)))


def test_a_draft_that_is_the_model_is_always_accepted():
    model = build("vidya-v2")
    drafted = list(stream(model, [1], draft=build("vidya-v2"), tokens=16, draft_tokens=4, **FREE))
    assert [token.drafted for token in drafted] == [False, *([True] * 4 + [False]) * 3]


def exact(model: LanguageModel, prompt: list[int], length: int, sampling: Sampling) -> dict[tuple[int, ...], float]:
    """Return the probability of every text of a length."""
    chances: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        longer = {}
        for text, chance in chances.items():
            counts = np.bincount([*prompt, *text], minlength=tiny.VOCAB).astype(float)
            p = distribution(model(np.array([[*prompt, *text]])).data[0, -1], sampling, counts=counts)
            longer |= {(*text, token): chance * p[token] for token in range(tiny.VOCAB)}
        chances = longer
    return chances


def assert_close(seen: Counter[Any], chances: dict[Any, float], number: int) -> None:
    """Compare counts with probabilities by chi-squared; values expected less than five times count as one."""
    common = [key for key, chance in chances.items() if chance * number >= 5]
    expected = [chances[key] * number for key in common]
    found = [seen[key] for key in common]
    if number - sum(expected) >= 5:
        expected, found = [*expected, number - sum(expected)], [*found, number - sum(found)]
    statistic = sum((a - b) ** 2 / b for a, b in zip(found, expected, strict=True))
    freedom = len(found) - 1
    assert statistic < freedom + 5 * np.sqrt(2 * freedom) + 1  # five standard deviations


def checked_tokens(number: int) -> tuple[Counter[Any], dict[int, float]]:
    """Return how often each token follows proposals from another distribution, and the model's probabilities."""
    rng = np.random.default_rng(3)
    logits, others = rng.normal(size=(2, tiny.VOCAB)), rng.normal(size=tiny.VOCAB)
    nothing = np.zeros(tiny.VOCAB, bool)
    rules = DrawingRules(Sampling(temperature=1, top_p=0.9), nothing, nothing, nothing, None)
    p, q = (distribution(each, rules.sampling) for each in (logits[0], others))
    seen: Counter[Any] = Counter()
    for sample in range(number):
        text = Continuation(rules, [1], 0, sample)
        proposals = [(draw(q, text.uniform("draft")), q)]
        seen[int(next(speculative._checked(text, logits, proposals)))] += 1
    return seen, dict(enumerate(p))


def test_a_checked_proposal_has_the_distribution_of_the_model(monkeypatch):
    assert_close(*checked_tokens(5_000), 5_000)
    monkeypatch.setattr(np, "maximum", lambda p, _: np.abs(p))  # refused tokens are drawn from |p - q|
    with pytest.raises(AssertionError):
        assert_close(*checked_tokens(5_000), 5_000)


@pytest.mark.parametrize("changes", [{"top_k": 4, "temperature": 0.7}, {"frequency_penalty": 1.0}])
def test_drawn_texts_have_the_distribution_of_the_model_alone(changes):
    small: dict[str, Any] = {"init_std": 0.25, "num_layers": 1}
    model, draft, prompt = tiny.build("vidya-v2", **small).eval(), tiny.build("gpt2", **small), [1, 2]
    options = FREE | {"tokens": 3} | changes
    sampling = Sampling(**{name: value for name, value in options.items() if name != "end_ids"})
    chances, number = exact(model, prompt, 3, sampling), 500
    tokens = list(stream(model, prompt, draft=draft, samples=number, draft_tokens=2, **options))
    assert 0.1 < np.mean([token.drafted for token in tokens]) < 0.6
    texts = [tuple(map(int, group)) for _, group in itertools.groupby(tokens, key=lambda token: token.sample)]
    assert len(texts) == number
    # Whole texts have too many values to count each; places, and pairs of neighbours, do not.
    for places in ((0,), (1,), (2,), (0, 1), (1, 2)):
        seen = Counter(tuple(text[place] for place in places) for text in texts)
        wanted: Counter[Any] = Counter()
        for text, chance in chances.items():
            wanted[tuple(text[place] for place in places)] += chance  # type: ignore[assignment]
        assert all(wanted[key] > 0 for key in seen)
        assert_close(seen, wanted, number)  # type: ignore[arg-type]


def test_samples_are_functions_of_their_number_and_the_draft_is_restored():
    model, draft = tiny.build("vidya-v2").eval(), tiny.build("gpt2").train()
    many = list(stream(model, [1], draft=draft, samples=3, tokens=6, seed=2, **FREE))
    last = list(stream(model, [1], draft=draft, first_sample=2, tokens=6, seed=2, **FREE))
    assert [int(token) for token in many if token.sample == 2] == [int(token) for token in last]
    assert draft.training


def test_stop_strings_end_a_drafted_text_too():
    tok = tokenizer.train(["to be or not to be"] * 9, vocab_size=270)
    model, draft = (models.build("vidya-v2", "nano", vocab_size=270, num_layers=1, seed=seed) for seed in (0, 1))
    ids = tok.encode("to be")
    free = "".join(token.text for token in stream(model, ids, tokens=20, temperature=0, tokenizer=tok))
    stop = free[len(free) // 2 :][:2]
    found = stream(model, ids, tokens=20, temperature=0, tokenizer=tok, draft=draft, stop=stop)
    assert "".join(token.text for token in found) == free[: free.index(stop)]
