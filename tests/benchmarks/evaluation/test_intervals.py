"""Intervals hold the truth as often as they say, and the test of equivalence is as seldom wrong as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.evaluation import intervals
from benchmarks.evaluation.intervals import Difference, holm, over_seeds, over_seeds_and_documents, quantile, tail
from minigrad.random import generator
from minigrad.typing import Array

TRIALS, SIZES = 400, np.array([3000.0, 500.0, 800.0, 1500.0, 700.0, 2500.0, 1000.0, 400.0] * 3)


def drawn(truth: float, seeds: int, *, of_seeds: float, of_documents: float, trial: int, draws: int = 400) -> Array:
    """Return differences in bits, of seeds and documents that differ by these standard deviations of a score."""
    draw = generator(trial, "synthetic losses")
    by_seed = draw.normal(0, of_seeds, (seeds, 1))
    by_document = draw.normal(0, of_documents * math.sqrt(len(SIZES)), len(SIZES))
    noise = draw.normal(0, of_seeds, (seeds, len(SIZES)))
    return (truth + by_seed + by_document + noise) * SIZES


@pytest.mark.parametrize(("seeds", "of_documents"), [(3, 0.0), (4, 0.003), (8, 0.003)])
def test_intervals_of_other_seeds_and_documents_hold_the_truth(seeds: int, of_documents: float) -> None:
    held = 0
    for trial in range(TRIALS):
        bits = drawn(0.02, seeds, of_seeds=0.006, of_documents=of_documents, trial=trial)
        low, high = over_seeds_and_documents(bits, SIZES, draws=400).interval()
        held += low <= 0.02 <= high
    assert 0.94 <= held / TRIALS <= 0.995


@pytest.mark.parametrize("documents", [4, 24])
def test_intervals_hold_the_truth_where_documents_differ_more_than_seeds(documents: int) -> None:
    held, sizes = 0, SIZES[:documents]
    for trial in range(TRIALS):
        draw = generator(trial, "few documents")
        by_document = draw.normal(0, 0.02, documents)
        bits = (0.02 + draw.normal(0, 0.002, (16, 1)) + by_document + draw.normal(0, 0.01, (16, documents))) * sizes
        low, high = over_seeds_and_documents(bits, sizes, draws=400).interval()
        held += low <= 0.02 <= high
    assert held / TRIALS >= 0.93


def test_an_interval_of_seeds_alone_misses_other_documents() -> None:
    """So the wider interval is needed: this one is right about these documents only."""
    held = 0
    for trial in range(TRIALS):
        low, high = over_seeds(drawn(0.0, 8, of_seeds=0.002, of_documents=0.01, trial=trial), SIZES).interval()
        held += low <= 0 <= high
    assert held / TRIALS < 0.5


@pytest.mark.parametrize("truth", [0.01, -0.01])
def test_a_difference_as_large_as_the_margin_is_seldom_called_none(truth: float) -> None:
    wrong = sum(
        over_seeds_and_documents(drawn(truth, 8, of_seeds=0.004, of_documents=0.002, trial=trial), SIZES, 400)
        .p_equivalent(0.01) < 0.05
        for trial in range(TRIALS)
    )  # fmt: skip
    assert wrong / TRIALS <= 0.075
    right = [over_seeds_and_documents(drawn(0.0, 8, of_seeds=0.004, of_documents=0.002, trial=n), SIZES, 400)
             .p_equivalent(0.01) < 0.05 for n in range(100)]  # fmt: skip
    assert np.mean(right) > 0.8


def test_the_p_value_of_no_difference_is_uniform() -> None:
    p = [over_seeds(drawn(0.0, 4, of_seeds=0.006, of_documents=0.0, trial=n), SIZES).p_differs() for n in range(TRIALS)]
    assert 0.02 <= np.mean(np.array(p) < 0.05) <= 0.08
    assert 0.4 <= np.mean(np.array(p) < 0.5) <= 0.6


def test_few_seeds_and_one_document_claim_nothing_that_they_cannot() -> None:
    one = over_seeds_and_documents(np.array([[1.0, 2.0]]), np.array([10.0, 10.0]))
    assert one.interval() == (-math.inf, math.inf)
    assert one.p_differs() == 1.0
    assert one.p_equivalent(1.0) == 1.0
    single = np.array([[1.0], [2.0], [3.0]])
    assert over_seeds_and_documents(single, np.array([10.0])) == over_seeds(single, np.array([10.0]))
    equal = Difference(0.0, 0.0, 3)
    assert (equal.interval(), equal.p_equivalent(0.01), equal.p_differs()) == ((0.0, 0.0), 0.0, 1.0)


def test_the_error_of_a_few_seeds_is_that_of_a_sample() -> None:
    found = over_seeds(np.array([[1.0], [2.0], [4.0]]), np.array([1.0]))
    assert found == (pytest.approx(7 / 3), pytest.approx(0.8819, abs=5e-5), 2)


@pytest.mark.parametrize(
    ("sizes", "freedom"), [([97, 1, 1, 1], 1), ([3, 3, 3, 3, 1, 1], 4), ([7] * 5, 4), ([1] * 9, 7)]
)
def test_documents_count_by_their_sizes(sizes: list[int], freedom: int) -> None:
    bits = generator(0, "eight seeds").normal(size=(8, len(sizes)))
    assert over_seeds_and_documents(bits, np.array(sizes, float)).freedom == freedom


def test_other_documents_never_make_the_error_smaller() -> None:
    for trial in range(50):
        bits = drawn(0.0, 3, of_seeds=0.006, of_documents=0.0, trial=trial)
        assert over_seeds_and_documents(bits, SIZES, draws=400).error >= over_seeds(bits, SIZES).error


def test_students_t_has_its_published_quantiles() -> None:
    published = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 7: 1.895, 10: 1.812, 31: 1.696, 120: 1.658}
    for freedom, value in published.items():
        assert quantile(0.95, freedom) == pytest.approx(value, abs=6e-4)
        assert tail(value, freedom) == pytest.approx(0.05, abs=1e-4)
        assert tail(-value, freedom) == pytest.approx(0.95, abs=1e-4)
    assert tail(0.0, 5) == 0.5
    assert tail(math.inf, 5) == pytest.approx(0, abs=1e-15)


def test_holm_multiplies_by_the_comparisons_that_are_left() -> None:
    assert holm([0.01, 0.02, 0.5]) == pytest.approx([0.03, 0.04, 0.5])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    assert intervals.CONFIDENCE == 0.95
