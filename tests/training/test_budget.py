"""The clock chooses the number of steps, once, and no step that was taken is part of the decay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.optim.schedules import decay_start
from minigrad.training.budget import Budget


def run(budget: Budget, paces: list[float], first: int = 0) -> tuple[int, int | None, float]:
    """Take steps of the given seconds; return (steps taken, the step at which the number was fixed, seconds)."""
    step, elapsed, fixed = first, 0.0, None
    while budget.steps is None or step < budget.steps:
        pace = elapsed / (step - first) if step > first else 0.0
        if budget.decide(step, elapsed, pace):
            assert fixed is None
            fixed = step
        elapsed += paces[step % len(paces)]
        step += 1
    return step, fixed, elapsed


def test_at_a_constant_speed_the_time_is_used_and_not_exceeded():
    assert run(Budget(None, 100.0), [1.0]) == (100, 80, 100.0)
    assert run(Budget(None, 100.0, reserve=10.0), [0.5])[::2] == (180, 90.0)


@given(
    st.lists(st.floats(1e-3, 10), min_size=1, max_size=20),
    st.floats(0.1, 200),
    st.floats(0, 50),
    st.integers(0, 50),
)
def test_no_step_that_was_taken_is_part_of_the_decay(paces, seconds, reserve, first):
    budget = Budget(None, seconds, reserve)
    steps, fixed, _ = run(budget, paces, first)
    assert fixed is not None
    assert steps == budget.steps
    assert first < fixed <= decay_start(steps) < steps


@given(st.lists(st.floats(0.5, 2), min_size=1, max_size=20), st.floats(20, 400))
def test_a_run_ends_about_when_it_should(paces, seconds):
    steps, fixed, elapsed = run(Budget(None, seconds), paces)
    fall = steps - (fixed or 0)
    assert elapsed <= seconds + 2 * (fall + 1)  # at worst each step of the decay is as slow as the slowest


def test_a_given_number_of_steps_is_never_changed():
    budget = Budget(7, 1.0)
    assert not any(budget.decide(step, 100.0, 1.0) for step in range(7))
    assert budget.steps == 7


def test_share_and_time_left_follow_the_clock_and_then_the_steps():
    budget = Budget(None, 100.0, reserve=10.0)
    assert (budget.share(3, 25.0), budget.seconds_left(3, 25.0, 1.0)) == (0.25, 65.0)
    assert (budget.share(3, 250.0), budget.seconds_left(3, 250.0, 1.0)) == (1.0, 0.0)
    budget.steps = 50
    assert (budget.share(10, 25.0), budget.seconds_left(10, 25.0, 2.0)) == (0.2, 80.0)


@pytest.mark.parametrize("left", [-1e9, -3.0, 0.0, 0.1])
def test_with_no_time_left_the_run_ends_at_once(left):
    assert run(Budget(None, 10.0, reserve=10.0 - left), [1.0])[0] <= 3
