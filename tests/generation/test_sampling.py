"""Drawing the next token: the effect of each setting on the distribution and on the text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import models
import tokenizer
from minigrad.errors import InputError
from minigrad.generation.sampling import Sampling, generate, unusable_ids
from minigrad.nn.language_model import LanguageModel
from tokenizer.vocabulary import Vocabulary

SCORES = arrays(np.float32, st.integers(2, 30), elements=st.floats(-50, 50, width=32))
SAMPLINGS = st.builds(
    Sampling,
    temperature=st.just(0.0) | st.floats(5e-324, 100),
    top_k=st.none() | st.integers(1, 40),
    top_p=st.none() | st.floats(1e-9, 1),
    min_p=st.none() | st.floats(1e-9, 1),
    repetition_penalty=st.floats(0.01, 100),
    frequency_penalty=st.floats(-100, 100),
)


def never(scores: Any) -> Any:
    return np.zeros(len(scores))


@given(SCORES, SAMPLINGS, st.data())
def test_any_setting_gives_a_distribution_without_the_forbidden(scores, sampling, data):
    size = len(scores)
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), float)
    forbidden = data.draw(st.lists(st.integers(0, size - 1), max_size=size - 1))
    before = scores.copy()
    found = replace(sampling, forbidden_ids=forbidden).probabilities(scores, counts)
    assert found.shape == scores.shape
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    assert not found[forbidden].any()
    if sampling.top_k is not None:
        assert np.count_nonzero(found) <= sampling.top_k
    np.testing.assert_array_equal(scores, before)


@given(SCORES)
def test_the_defaults_are_the_softmax(scores):
    exact = np.exp(scores.astype(np.float64) - scores.max())
    np.testing.assert_allclose(Sampling().probabilities(scores, never(scores)), exact / exact.sum(), atol=1e-12)


@given(SCORES)
@example(np.array([-2.5e-26, 0], np.float32))  # their exponentials round to the same value
def test_temperature_zero_and_top_k_one_take_the_most_likely_token(scores):
    for sampling in (Sampling(temperature=0), Sampling(top_k=1), Sampling(top_p=1e-9)):
        assert sampling.probabilities(scores, never(scores)).argmax() == scores.argmax()
        assert sampling.probabilities(scores, never(scores)).max() == 1


@given(SCORES, st.floats(0.01, 1))
def test_top_p_keeps_the_fewest_most_likely_tokens_that_reach_p(scores, p):
    whole, kept = (s.probabilities(scores, never(scores)) for s in (Sampling(), Sampling(top_p=p)))
    inside = kept > 0
    assert whole[inside].sum() >= p - 1e-9
    assert whole[inside].sum() - whole[inside].min() < p + 1e-9
    if not inside.all():
        assert whole[~inside].max() <= whole[inside].min()
    np.testing.assert_allclose(kept[inside], whole[inside] / whole[inside].sum())


@given(SCORES, st.floats(0.01, 1))
def test_min_p_keeps_tokens_by_their_probability_relative_to_the_largest(scores, p):
    whole, kept = (s.probabilities(scores, never(scores)) for s in (Sampling(), Sampling(min_p=p)))
    clear = np.abs(whole / whole.max() - p) > 1e-9  # values at the threshold depend on rounding
    np.testing.assert_array_equal((kept > 0)[clear], (whole >= p * whole.max())[clear])


@given(SCORES, st.floats(1.01, 10), st.floats(0.1, 5))
def test_penalties_lower_the_probability_with_each_occurrence(scores, repetition, frequency):
    once, twice = never(scores), never(scores)
    once[0], twice[0] = 1, 2
    plain = Sampling().probabilities(scores, once)[0]
    assert Sampling(repetition_penalty=repetition).probabilities(scores, once)[0] <= plain + 1e-12
    seldom, often = (Sampling(frequency_penalty=frequency).probabilities(scores, each)[0] for each in (once, twice))
    assert often <= seldom <= plain
    np.testing.assert_array_equal(
        Sampling(repetition_penalty=repetition, frequency_penalty=frequency).probabilities(scores, never(scores)),
        Sampling().probabilities(scores, never(scores)),
    )


@given(SCORES)
def test_a_lower_temperature_sharpens_the_distribution(scores):
    cold, warm = (Sampling(temperature=t).probabilities(scores, never(scores)) for t in (0.5, 2.0))
    assert cold.max() >= warm.max() - 1e-12


def test_logits_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match="not finite: its weights are damaged"):
        Sampling().probabilities(np.array([1.0, np.nan]), np.zeros(2))


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    shape: dict[str, Any] = {"vocab_size": 40, "num_layers": 2, "width": 16, "head_dim": 8, "feed_forward": 32}
    return models.build("vidya-v2", context_length=12, init_std=0.7, **shape)


def text(model: LanguageModel, prompt: list[int], count: int, **options: Any) -> list[int]:
    return list(generate(model, prompt, count=count, sampling=options.pop("sampling", Sampling()), **options))


def test_a_text_is_a_function_of_seed_and_index(model):
    assert text(model, [1], 10, seed=3) == text(model, [1], 10, seed=3)
    assert text(model, [1], 10, seed=3) != text(model, [1], 10, seed=4)
    assert text(model, [1], 10, seed=3, index=1) != text(model, [1], 10, seed=3)
    assert text(model, [1], 10, seed=3)[:4] == text(model, [1], 4, seed=3)


@given(prompt=st.lists(st.integers(0, 39), min_size=1, max_size=6))
def test_the_cache_changes_nothing(model, prompt):
    row = list(prompt)
    for _ in range(6):
        row.append(int(model(np.array([row])).data[0, -1].argmax()))
    assert text(model, prompt, 6, sampling=Sampling(temperature=0)) == row[len(prompt) :]


def test_generation_continues_beyond_the_context_from_its_last_half(model):
    greedy = Sampling(temperature=0)
    prompt = [5, 6, 7]
    found = text(model, prompt, 40, sampling=greedy)
    assert len(found) == 40
    row = [*prompt, *found]
    # The context is 12: at the 13th token a new cache begins with the last six tokens.
    assert row[13] == text(model, row[7:13], 1, sampling=greedy)[0]


@pytest.mark.parametrize("length", [11, 12, 13, 50])
def test_only_the_last_part_of_a_prompt_longer_than_the_context_is_used(model, length):
    prompt = [number % 40 for number in range(length)]
    assert text(model, prompt, 1, seed=1) == text(model, prompt[-12:], 1, seed=1)
    assert len(text(model, prompt, 30)) == 30


def test_a_context_of_one_token_is_enough():
    tiny = models.build("vidya-v2", context_length=1, vocab_size=20, num_layers=1, width=8, head_dim=4, feed_forward=8)
    assert len(text(tiny, [1, 2, 3], 5)) == 5


def test_generation_ends_at_a_stop_token_and_never_draws_a_forbidden_one(model):
    free = text(model, [1], 10, seed=3)
    assert text(model, [1], 10, seed=3, stop_ids=[free[4]]) == free[: free.index(free[4])]
    forbidden = [number for number in range(40) if number % 4]
    assert all(number % 4 == 0 for number in text(model, [1], 10, seed=3, sampling=Sampling(forbidden_ids=forbidden)))


def test_dropout_is_off_during_generation_and_restored_after_it(model):
    model.train()
    text(model, [1], 2)
    assert model.training
    model.eval()
    text(model, [1], 2)
    assert not model.training


def test_an_empty_prompt_is_refused(model):
    with pytest.raises(InputError, match="at least one token"):
        text(model, [], 3)


def test_special_and_unused_ids_are_forbidden_but_the_end_of_text():
    tok = tokenizer.train(["to be or not to be"] * 3, vocab_size=300)
    found = unusable_ids(tok, 310)
    assert tok.end_of_text_id not in found
    assert set(found) == {*tok.specials.values(), *range(tok.used, 310)} - {tok.end_of_text_id}


def test_gaps_between_the_ids_of_a_tokenizer_are_never_drawn():
    ids = {bytes([byte]): 40 + byte for byte in range(256)}
    tok = tokenizer.Tokenizer(Vocabulary("gpt2", ids, (), {"<|endoftext|>": 500, "<|user|>": 10}, 501))
    assert unusable_ids(tok, 502) == [*range(40), *range(296, 500), 501]
