"""The points of the curves: thinned, and each the mean of as many steps."""

from __future__ import annotations

import math

import pytest

from minigrad.pages.chart import MAX_POINTS
from minigrad.training.report.curves import even, extra_curves, series


def test_a_long_run_is_thinned():
    records = [{"step": step, "loss": float(step)} for step in range(100_000)]
    found = series("loss", records, "loss")
    assert MAX_POINTS / 2 <= len(found.steps) <= MAX_POINTS
    assert found.steps == found.values
    assert found.steps[-1] == 99_999  # the loss at the end, which the report names


def bits(*pairs: tuple[int, float | None]) -> list[tuple[int, float | None]]:
    """Return the points of the training curve, given the step and the bits per byte of each line of metrics."""
    points = even([{"step": step, "bits_per_byte": value} for step, value in pairs])
    return [(point["step"], point["bits_per_byte"]) for point in points]


def test_a_short_last_line_is_joined_with_the_line_before():
    """Its mean is over 2 steps instead of 10, so by itself it would jump."""
    assert bits((1, 9.0), (10, 5.0), (20, 4.0), (30, 3.0), (32, 1.0)) == [
        (1, 9.0), (10, 5.0), (20, 4.0), (32, pytest.approx((10 * 3.0 + 2 * 1.0) / 12)),
    ]  # fmt: skip


def test_lines_that_an_evaluation_made_short_are_joined():
    assert bits((1, 9.0), (11, 5.0), (21, 4.0), (25, 2.0), (31, 3.0), (41, 1.0)) == [
        (1, 9.0), (11, 5.0), (21, 4.0), (31, pytest.approx(2.6)), (41, 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize("pairs", [[], [(1, 2.0)], [(1, 2.0), (5, 1.0)], [(1, None), (3, None)], [(5, 1.0), (5, 2.0)]])
def test_few_lines_stay_as_they_are(pairs):
    assert bits(*pairs) == pairs


def test_a_line_without_a_value_leaves_a_gap():
    assert bits((1, 9.0), (11, 5.0), (21, None), (22, 3.0))[-1] == (22, 3.0)


def test_a_curve_may_be_over_tokens_or_seconds():
    records = [
        {"step": 1, "tokens": 64, "seconds": 0.5, "loss": None},
        {"step": 2, "tokens": 128, "seconds": 1.5, "loss": 6.0},
    ]
    found = series("loss", records, "loss", 2.0, over="seconds")
    assert found.steps == [0.5, 1.5]
    assert found.values[1] == 3.0


def test_what_only_a_family_measures_is_a_curve_for_each_number():
    records = [
        {"step": 1, "loss": 3.0},
        {"step": 2, "loss": 2.0, "merge_ratio": [0.5, None], "load": list(range(10)), "expert_load_0": [1.0]},
        {"step": 3, "loss": 2.0, "merge_ratio": [0.25, 0.75], "load": [1.0] * 10},
    ]
    assert "expert_load_0" in extra_curves(records)
    curves = extra_curves(records, elsewhere=["expert_load_0"])
    assert list(curves) == ["merge_ratio", "load"]
    first, second = curves["merge_ratio"]
    assert (first.label, first.steps, list(first.values)) == ("1", [2, 3], [0.5, 0.25])
    assert math.isnan(second.values[0])
    assert {line.label: line.values for line in curves["load"]} == {
        "largest": [9, 1.0],
        "mean": [4.5, 1.0],
        "smallest": [0, 1.0],
    }
