"""Drawing the next token: the effect of each setting on the distribution, and draws that follow it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from minigrad.errors import InputError
from minigrad.generation.sampling import (
    as_mask,
    candidates,
    distribution,
    draw,
    log_probabilities,
    most_likely,
    uniform,
)
from minigrad.generation.settings import Sampling

LOGITS = arrays(np.float32, st.integers(2, 30), elements=st.floats(-50, 50, width=32))
SAMPLINGS = st.builds(
    Sampling,
    temperature=st.just(0.0) | st.floats(5e-324, 100),
    top_k=st.none() | st.integers(1, 40),
    top_p=st.none() | st.floats(1e-9, 1),
    min_p=st.none() | st.floats(1e-9, 1),
    repetition_penalty=st.floats(0.01, 100),
    frequency_penalty=st.floats(-100, 100),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.5, -100.0]),
)


def plain(**settings: Any) -> Sampling:
    """Return settings that draw from the model's own distribution, but for those that are given."""
    return Sampling(**{"temperature": 1.0, "top_p": None} | settings)


def never(logits: Any) -> Any:
    return np.zeros(len(logits))


def sorted_distribution(logits: Any, sampling: Sampling, counts: Any, forbidden: Any) -> Any:
    """The definition: a loop over all tokens in the order of their probability."""
    values = [float(logit) for logit in logits]
    for token, count in enumerate(counts):
        if count:
            penalty = sampling.repetition_penalty
            values[token] = values[token] / penalty if values[token] > 0 else values[token] * penalty
        values[token] -= sampling.frequency_penalty * count + sampling.presence_penalty * bool(count)
        if forbidden[token]:
            values[token] = -np.inf
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))
    if sampling.temperature == 0:
        return np.eye(len(values))[order[0]]
    with np.errstate(over="ignore"):
        weights = np.exp((np.array(values) - values[order[0]]) / sampling.temperature)
    if sampling.min_p is not None:
        weights[weights < sampling.min_p] = 0
    weights[order[sampling.top_k or len(order) :]] = 0
    weights /= weights.sum()
    if sampling.top_p is not None:
        before = 0.0
        for token in order:
            chance, weights[token] = weights[token], weights[token] if before < sampling.top_p else 0
            before += chance
    return weights / weights.sum()


@given(LOGITS, SAMPLINGS, st.data())
def test_any_setting_gives_a_distribution_without_the_forbidden(logits, sampling, data):
    size = len(logits)
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), float)
    forbidden = as_mask(data.draw(st.lists(st.integers(0, size - 1), max_size=size - 1)), size)
    before = logits.copy()
    found = distribution(logits, sampling, counts=counts, forbidden=forbidden)
    assert found.shape == logits.shape
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    assert not found[forbidden].any()
    if sampling.top_k is not None:
        assert np.count_nonzero(found) <= sampling.top_k
    np.testing.assert_array_equal(logits, before)


@given(
    arrays(np.float32, st.sampled_from([5, 70, 700]), elements=st.integers(-40, 40)),
    st.builds(
        Sampling,
        temperature=st.sampled_from([0.0, 0.3, 1.0, 100.0]),
        top_k=st.none() | st.integers(1, 700),
        top_p=st.none() | st.floats(0.01, 0.999),
        min_p=st.none() | st.floats(0.01, 1),
        repetition_penalty=st.sampled_from([1.0, 0.5, 1.7]),
        frequency_penalty=st.sampled_from([0.0, 0.4]),
        presence_penalty=st.sampled_from([0.0, 3.0]),
    ),
    st.randoms(use_true_random=False),
)
def test_the_selection_keeps_what_a_sorted_list_of_all_tokens_gives(logits, sampling, random):
    counts = np.array([random.choice([0, 0, 1, 3]) for _ in logits], float)
    forbidden = np.array([random.random() < 0.2 for _ in logits])
    forbidden[0] = False
    found, wanted = (
        function(logits, sampling, counts=counts, forbidden=forbidden)
        for function in (distribution, sorted_distribution)
    )
    # A token at the border of top-p may fall on either side, by the rounding of the sum.
    differs = (found > 0) != (wanted > 0)
    assert np.count_nonzero(differs) <= 1
    found, wanted = (np.where(differs, 0, each) for each in (found, wanted))
    np.testing.assert_allclose(found / found.sum(), wanted / wanted.sum(), atol=1e-12)


@given(LOGITS)
def test_without_temperature_and_limits_it_is_the_softmax(logits):
    exact = np.exp(logits.astype(np.float64) - logits.max())
    np.testing.assert_allclose(distribution(logits, plain()), exact / exact.sum(), atol=1e-12)
    np.testing.assert_allclose(np.exp(log_probabilities(logits)), exact / exact.sum(), atol=1e-12)


@given(LOGITS)
@example(np.array([-2.5e-26, 0], np.float32))  # their exponentials round to the same value
def test_temperature_zero_and_top_k_one_take_the_most_likely_token(logits):
    for sampling in (plain(temperature=0), plain(top_k=1), plain(top_p=1e-9)):
        assert distribution(logits, sampling).argmax() == logits.argmax()
        assert distribution(logits, sampling).max() == 1


@given(LOGITS, st.floats(0.01, 1))
def test_top_p_keeps_the_fewest_most_likely_tokens_that_reach_p(logits, p):
    whole, kept = (distribution(logits, sampling) for sampling in (plain(), plain(top_p=p)))
    inside = kept > 0
    assert whole[inside].sum() >= p - 1e-9
    assert whole[inside].sum() - whole[inside].min() < p + 1e-9
    if not inside.all():
        assert whole[~inside].max() <= whole[inside].min()
    np.testing.assert_allclose(kept[inside], whole[inside] / whole[inside].sum())


@given(LOGITS, st.floats(0.01, 1))
def test_min_p_keeps_tokens_by_their_probability_relative_to_the_largest(logits, p):
    whole, kept = (distribution(logits, sampling) for sampling in (plain(), plain(min_p=p)))
    clear = np.abs(whole / whole.max() - p) > 1e-9  # values at the threshold depend on rounding
    np.testing.assert_array_equal((kept > 0)[clear], (whole >= p * whole.max())[clear])


def test_the_likeliest_token_is_left_by_the_largest_min_p():
    assert distribution(np.log([0.5, 0.3, 0.2]), plain(min_p=1.0)).tolist() == [1, 0, 0]


def test_top_p_is_a_share_of_what_top_k_has_left():
    found = distribution(np.log([0.5, 0.3, 0.2]), plain(top_k=2, top_p=0.6))
    assert found.tolist() == [1, 0, 0]  # of the first two it has 0.625


def test_the_presence_penalty_is_taken_off_once():
    wanted = distribution(np.array([1.0, 2.0, 3.0]), plain())
    found = distribution(np.array([1.5, 2.0, 3.5]), plain(presence_penalty=0.5), counts=np.array([1, 0, 4]))
    np.testing.assert_allclose(found, wanted)


def test_a_mask_ignores_ids_outside_the_vocabulary():
    assert as_mask([-1, 2, 5], 5).tolist() == [False, False, True, False, False]


@given(LOGITS, st.floats(1.01, 10), st.floats(0.1, 5))
def test_penalties_lower_the_probability_with_each_occurrence(logits, repetition, frequency):
    once, twice = never(logits), never(logits)
    once[0], twice[0] = 1, 2
    free = distribution(logits, plain(), counts=once)[0]
    assert distribution(logits, plain(repetition_penalty=repetition), counts=once)[0] <= free + 1e-12
    seldom, often = (distribution(logits, plain(frequency_penalty=frequency), counts=each)[0] for each in (once, twice))
    assert often <= seldom <= free
    present = [distribution(logits, plain(presence_penalty=frequency), counts=each)[0] for each in (once, twice)]
    assert present[0] == present[1] <= free
    both = plain(repetition_penalty=repetition, frequency_penalty=frequency, presence_penalty=frequency)
    np.testing.assert_array_equal(
        distribution(logits, both, counts=never(logits)), distribution(logits, plain(), counts=never(logits))
    )


@given(LOGITS)
def test_a_lower_temperature_sharpens_the_distribution(logits):
    cold, warm = (distribution(logits, plain(temperature=t)) for t in (0.5, 2.0))
    assert cold.max() >= warm.max() - 1e-12


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_refused(broken):
    with pytest.raises(InputError, match="not finite: its weights are damaged"):
        distribution(np.array([1.0, broken]), plain())


def test_logits_of_float64_stay_as_they_are():
    logits = np.array([1.0, 2.0, 3.0])
    distribution(logits, plain(temperature=0.5, presence_penalty=1), counts=np.ones(3), forbidden=as_mask([1], 3))
    assert logits.tolist() == [1, 2, 3]


@given(arrays(np.float64, st.integers(1, 300), elements=st.integers(-5, 5)), st.integers(0, 300))
def test_the_most_likely_are_those_of_a_stable_sort(values, count):
    np.testing.assert_array_equal(most_likely(values, count), np.argsort(-values, kind="stable")[:count])


def test_nothing_is_sorted_where_no_alternative_is_wanted():
    assert len(candidates(np.arange(100.0), 0)) == 0


@given(arrays(np.float64, st.integers(1, 20), elements=st.sampled_from([0.0, 0.1, 1.0])), st.floats(0, 1))
def test_a_draw_has_a_probability(weights, share):
    weights[0] += 0.5
    assert weights[draw(weights, share)] > 0


def test_draws_follow_the_distribution():
    wanted = np.array([0.5, 0.0, 0.3, 0.2])
    draws = [draw(wanted, uniform(3, "sampling", sample, 7)) for sample in range(2_000)]
    found = np.bincount(draws, minlength=4) / len(draws)
    assert found[1] == 0
    assert np.abs(found - wanted).max() < 4 * np.sqrt(0.25 / len(draws))


def test_the_random_number_of_a_place_depends_on_seed_purpose_sample_and_position():
    places = [(0, "a", 0, 0), (1, "a", 0, 0), (0, "b", 0, 0), (0, "a", 1, 0), (0, "a", 0, 1)]
    assert len({uniform(*place) for place in places}) == len(places)
    assert uniform(*places[2]) == uniform(*places[2])
