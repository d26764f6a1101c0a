"""The clock chooses the number of steps, and no step that was taken is part of the decay that follows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.errors import InputError
from minigrad.optim.schedules import decay_start
from minigrad.training.budget import Budget, Pace, read_decay, write_decay

WARMED_UP: Any = SimpleNamespace(schedule="wsd", lr=1.0, warmup=1)


def run(
    budget: Budget, seconds_of: Callable[[float], float], reserve: float = 0.0, *, step: int = 0, now: float = 0.0
) -> tuple[list[int], float]:
    """Take steps of `seconds_of(seconds so far)`; return (the steps before which a number was chosen, seconds)."""

    def clock() -> float:
        return now

    pace, chosen = Pace(clock), []
    while budget.steps is None or step < budget.steps:
        left = (budget.seconds or 0.0) - reserve - now
        ahead = budget.steps - step if budget.steps else step // 4
        if budget.decide(step, left, pace.seconds_per_step(ahead, {})):
            chosen.append(step)
        with pace.step():
            now += seconds_of(now)
        step += 1
    assert budget.steps == step
    return chosen, now


def test_at_a_constant_speed_the_number_is_chosen_once_and_the_time_is_used():
    budget = Budget(None, 100.0)
    assert run(budget, lambda _: 1.0) == ([80], 100.0)
    assert budget.decay == [(80, 100)]
    assert write_decay(budget.decay) is None
    budget = Budget(None, 100.0)
    assert run(budget, lambda _: 0.5, reserve=10.0) == ([144], 90.0)


@pytest.mark.parametrize("when", [0.0, 30.0, 79.0, 81.0, 85.0, 92.0, 97.0])
@pytest.mark.parametrize("factor", [0.4, 0.7, 1.5, 2.5])
def test_a_run_ends_on_time_when_its_speed_changes(when, factor):
    budget = Budget(None, 100.0)
    chosen, seconds = run(budget, lambda now: 0.1 * (factor if now >= when else 1.0))
    assert 97.0 <= seconds <= 103.0
    assert len(chosen) <= 6
    assert chosen == [start for start, _ in budget.decay]


@given(st.lists(st.floats(0.05, 0.2), min_size=1, max_size=40), st.floats(10, 100))
def test_a_run_ends_about_on_time_at_any_speeds(speeds, seconds):
    def speed(now: float) -> float:
        return speeds[int(len(speeds) * now / (4 * seconds)) % len(speeds)]

    assert run(Budget(None, seconds), speed)[1] == pytest.approx(seconds, abs=0.03 * seconds + 0.4)


@given(st.lists(st.floats(1e-3, 10), min_size=1, max_size=20), st.floats(0.1, 200), st.floats(0, 50))
def test_no_step_that_was_taken_is_part_of_the_decay_that_is_chosen(paces, seconds, reserve):
    budget, turns = Budget(None, seconds), itertools.cycle(paces)
    chosen, _ = run(budget, lambda _: next(turns), reserve)
    first, steps = budget.decay[0]
    assert first == chosen[0] == decay_start(steps)
    assert read_decay(write_decay(budget.decay), budget.steps) in (budget.decay, [])


@given(st.lists(st.floats(0.05, 0.2), min_size=1, max_size=40))
def test_the_learning_rate_falls_to_the_end_however_often_the_decay_is_corrected(speeds):
    budget = Budget(None, 30.0)
    run(budget, lambda now: speeds[int(now) % len(speeds)])
    start = budget.decay[0][0]
    rates = [budget.learning_rate(step, WARMED_UP) for step in range(budget.steps or 0)]
    assert set(rates[1:start]) <= {1.0}
    assert all(after < before for before, after in itertools.pairwise(rates[start - 1 :]))
    assert 0 < rates[-1] < 0.5


def test_the_learning_rate_follows_the_decay_that_was_corrected():
    budget = Budget(40, None, [(20, 60), (30, 40)])
    rates = [budget.learning_rate(step, WARMED_UP) for step in range(19, 40)]
    assert rates[0] == 1
    assert all(after < before for before, after in itertools.pairwise(rates))
    assert rates[-1] < 0.1


def test_a_small_change_of_the_speed_changes_no_number():
    chosen, seconds = run(Budget(None, 100.0), lambda now: 0.1 if now < 85 else 0.1005)
    assert chosen == [800]
    assert 99 < seconds < 101


def test_a_continued_run_keeps_what_was_chosen_and_corrects_only_what_is_to_come():
    budget = Budget(950, 100.0, [(800, 1000), (900, 950)])
    assert not budget.decide(700, 1.0, 1.0)
    assert not budget.decide(900, 1.0, 1.0)
    assert budget.decide(901, 4.0, 1.0)
    assert (budget.steps, budget.decay[-1]) == (905, (901, 905))


@pytest.mark.parametrize("done", [10, 790, 799, 801, 900, 980, 997])
@pytest.mark.parametrize("factor", [1.9, 10.0])
def test_a_continued_run_does_not_judge_by_its_first_step(done: int, factor: float) -> None:
    decay = [(800, 1000)] if done > 800 else []
    budget, times = Budget(1000 if decay else None, 100.0, decay), iter([0.1 * factor])
    chosen, seconds = run(budget, lambda _: next(times, 0.1), step=done, now=0.1 * done)
    start, steps = budget.decay[0]
    assert abs(start - 800) <= 10
    assert abs(steps - 1000) <= 10
    assert len(chosen) <= 2
    assert seconds == pytest.approx(100, abs=1.1)


@pytest.mark.parametrize("slower", [0.5, 3.0])
def test_a_continued_run_ends_on_time_on_another_machine(slower: float) -> None:
    for done, course in ((799, []), (850, [(800, 1000)])):
        budget = Budget(1000 if course else None, 100.0, course)
        assert run(budget, lambda _: 0.1 * slower, step=done, now=0.1 * done)[1] == pytest.approx(100, abs=1.1)


def test_a_given_number_of_steps_is_never_changed():
    budget = Budget(7)
    assert not any(budget.decide(step, 100.0, 1.0) for step in range(7))
    assert (budget.steps, budget.decay) == (7, [(5, 7)])


def test_share_and_time_left_follow_the_clock_and_then_the_steps():
    budget = Budget(None, 100.0)
    assert (budget.share(3, 25.0), budget.seconds_left(3, 65.0, 1.0)) == (0.25, 65.0)
    assert (budget.share(3, 250.0), budget.seconds_left(3, -160.0, 1.0)) == (1.0, 0.0)
    budget.steps = 50
    assert (budget.share(10, 25.0), budget.seconds_left(10, 1.0, 2.0)) == (0.2, 80.0)


@pytest.mark.parametrize("left", [-1e9, -3.0, 0.0, 0.1])
def test_with_no_time_left_the_run_ends_at_once(left):
    budget = Budget(None, 10.0)
    run(budget, lambda _: 1.0, reserve=10.0 - left)
    assert (budget.steps or 9) <= 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("800", "takes START:STEPS,START:STEPS,... in whole numbers, not '800'"),
        ("800:x", "in whole numbers"),
        ("1000:1000", "each START must be below its STEPS"),
        ("-3:1000", "each START must be below its STEPS"),
        ("800:900,900:1000", "between the START and STEPS before"),
        ("800:900,800:1000", "between the START and STEPS before"),
        ("800:1000,900:950", "ends at step 950, so it needs --steps 950"),
    ],
)
def test_a_course_that_cannot_be_is_refused(text, message):
    with pytest.raises(InputError) as caught:
        read_decay(text, 1000)
    assert message in str(caught.value)


def test_a_course_is_written_as_it_is_read():
    assert read_decay(None, 10) == read_decay("", None) == []
    for text, steps in (("800:1000,900:950", 950), ("500:1000", 1000)):
        assert write_decay(read_decay(text, steps)) == text
    assert write_decay(read_decay("800:1000", 1000)) is None
