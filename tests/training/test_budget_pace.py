"""How long the parts of a run take."""

from __future__ import annotations

import pytest

from minigrad.training.budget import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def paced(*seconds: float) -> tuple[Pace, Clock]:
    """Return the pace of steps of so many seconds, with its clock."""
    clock = Clock()
    pace = Pace(clock)
    for each in seconds:
        with pace.step():
            clock.now += each
    return pace, clock


def test_before_the_first_step_nothing_is_known():
    pace, _ = paced()
    assert pace.seconds_per_step(10, {"save": 5}) == 0.0
    assert pace.seconds_of("save", 0.7) == 0.7


def test_the_steps_ahead_take_as_long_as_as_many_before_them():
    pace, _ = paced(9.0, *[1.0] * 10, *[3.0] * 10)
    assert pace.seconds_of_steps == 49.0
    assert pace.seconds_per_step(10, {}) == 3.0
    assert pace.seconds_per_step(20, {}) == 2.0
    assert pace.seconds_per_step(1_000, {}) == 2.0
    assert pace.seconds_per_step(0, {}) == 3.0


def test_the_first_step_counts_only_as_long_as_it_is_the_only_one():
    assert paced(9.0)[0].seconds_per_step(10, {}) == 9.0
    assert paced(9.0, 1.0)[0].seconds_per_step(10, {}) == 1.0
    assert paced(9.0, 1.0, 2.0)[0].seconds_per_step(10, {}) == 1.5


def test_the_first_of_several_items_does_not_count():
    for seconds, mean in (([9.0, 1.0, 2.0], 1.5), ([4.0], 4.0), ([], 0.0)):
        pace, clock = paced()
        for each in pace.each("batch", seconds):
            clock.now += each
        assert pace.seconds_of("batch", 7.0) == mean


def test_other_work_counts_by_its_share_and_not_as_steps():
    pace, clock = paced(1.0, 1.0)
    for seconds in (900.0, 8.0, 4.0, 1.0, 4.0, 50.0):
        with pace.work("save"):
            clock.now += seconds
    assert pace.seconds_of("save", 0.0) == 4.0
    assert pace.seconds_of_steps == 2.0
    assert pace.seconds_per_step(2, {"save": 8, "sample": 2}) == pytest.approx(1.5)
