"""The scaling law: what it says of a text that is read again, of a limit, and of what was not measured."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.training.planning import scaling
from minigrad.training.planning.fitting import fit, residual_error, without_each
from minigrad.training.planning.scaling import CURVES, ERROR, LAW, WITHOUT, Law, predict

EASY = Law(1.0, 10.0, 0.5, 20.0, 0.5, 4.0)
AMOUNTS = st.floats(1, 1e12)


def test_the_law_is_the_sum_of_what_is_missed_for_three_reasons():
    assert EASY.loss(100, 400) == pytest.approx(1.0 + 10 / 10 + 20 / 20)
    assert EASY.loss(100, math.inf) == 2.0


@given(tokens=AMOUNTS, factor=st.floats(1, 100), unique=AMOUNTS)
def test_more_text_is_worth_more_but_a_repeated_one_less_than_a_new_one(tokens, factor, unique):
    once, often = EASY.worth(tokens, unique), EASY.worth(tokens * factor, unique)
    assert once <= often * (1 + 1e-12)
    assert often <= min(tokens * factor, (1 + EASY.repeats) * unique) * (1 + 1e-12)
    assert EASY.worth(tokens) == tokens


def test_a_second_reading_is_worth_almost_as_much_as_a_first():
    assert EASY.worth(1_001, 1_000) == pytest.approx(1_001, rel=1e-6)  # no step where the text begins again
    assert EASY.worth(5_000, 1_000) == pytest.approx(1_000 * (1 + 4 * (1 - math.exp(-1))))


def test_the_worth_of_a_pass_is_what_it_adds():
    added = EASY.worth(3_001, 1_000) - EASY.worth(3_000, 1_000)
    assert added == pytest.approx(EASY.worth_of_pass(3), rel=1e-3)


def test_the_constants_are_those_of_the_measured_runs():
    points = [point for curve in CURVES.values() for point in curve]
    found = fit(points)
    # Far apart, E and B give nearly the same losses, so another processor may find other constants.
    assert [found.loss(*each[:3]) for each in points] == pytest.approx(
        [LAW.loss(*each[:3]) for each in points], abs=2e-4
    )
    assert len(WITHOUT) == len(CURVES)
    assert without_each({name: CURVES[name] for name in list(CURVES)[:2]})[0] == fit(CURVES[list(CURVES)[1]])
    assert residual_error(LAW, points) == pytest.approx(ERROR, abs=6e-4)


def test_bounds_are_two_errors_beyond_the_least_and_the_most_of_the_laws():
    laws = EASY, EASY._replace(entropy=1.5)
    assert scaling.bounds(laws, 0.1, 100, 400, math.inf) == pytest.approx((2.8, 3.7))
    points = [scaling.Point(100, 400, 400, 3.0 + error) for error in (0.3, -0.3, *(0.0,) * 6)]
    assert residual_error(EASY, points) == pytest.approx(0.3)


def test_a_prediction_lies_within_its_bounds_and_says_if_nothing_like_it_was_measured():
    inside, large, long, often = (
        predict(*run)
        for run in ((589_824, 4e6, 1.5e6), (10**9, 4e6, 1.5e6), (589_824, 1e12, 1e12), (589_824, 8e6, 10_000))
    )
    for each in (inside, large, long, often):
        assert each.low < each.loss < each.high
    assert [each.is_measured for each in (inside, large, long, often)] == [True, False, False, False]
    assert str(scaling.ExpectedLoss(1.441, 1.42, 1.466, True)) == "1.44 (1.42 to 1.47)"
    assert str(scaling.ExpectedLoss(1.441, 1.42, 1.466, False)) == "1.44 (1.42 to 1.47, beyond the measured range)"
