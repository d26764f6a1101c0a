"""Schedules: up in a line, never negative, no jumps, and near zero at the end."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.optim import decay_start, warmup_cosine, warmup_stable_decay


@st.composite
def lengths(draw: Any) -> tuple[int, int, int]:
    warmup, stable, decay = draw(st.integers(0, 50)), draw(st.integers(0, 200)), draw(st.integers(1, 200))
    return warmup, warmup + stable, warmup + stable + decay


@given(lengths(), st.floats(1e-6, 10))
def test_both_schedules(plan: tuple[int, int, int], peak: float) -> None:
    warmup, fall, steps = plan
    stable = [warmup_stable_decay(s, peak=peak, warmup=warmup, decay_start=fall, steps=steps) for s in range(steps)]
    cosine = [warmup_cosine(s, peak=peak, warmup=warmup, steps=steps) for s in range(steps)]
    for rates, fall_begins in ((stable, fall), (cosine, warmup)):
        assert all(0 <= rate <= peak * (1 + 1e-12) for rate in rates)
        rise = rates[:warmup]
        assert all(a < b for a, b in itertools.pairwise(rise))
        if warmup:
            assert rates[warmup - 1] == pytest.approx(peak)
        falling = rates[fall_begins:]
        assert all(a >= b for a, b in itertools.pairwise(falling))
    assert all(rate == peak for rate in stable[warmup:fall])
    # One more step would reach zero; 1 - sqrt(x) and the cosine both end below the line that goes there evenly.
    last = 1 / (steps - fall + 1)
    assert stable[-1] <= peak * last * 1.0001
    assert cosine[-1] <= peak * 2.5 / (steps - warmup + 1)


@given(lengths())
def test_no_jumps(plan: tuple[int, int, int]) -> None:
    warmup, fall, steps = plan
    rates = [warmup_stable_decay(s, peak=1.0, warmup=warmup, decay_start=fall, steps=steps) for s in range(steps)]
    # The steepest places: a step of the rise, and the first step of the fall.
    allowed = max(1 / max(warmup, 1), (1 / (steps - fall + 1)) ** 0.5) + 1e-12
    assert all(abs(a - b) <= allowed for a, b in itertools.pairwise(rates))


def test_after_the_end_nothing_is_left() -> None:
    assert warmup_stable_decay(50, peak=1.0, warmup=2, decay_start=10, steps=20) == 0
    assert warmup_cosine(50, peak=1.0, warmup=2, steps=20, floor=0.1) == pytest.approx(0.1)


@given(st.integers(1, 10_000), st.floats(0.01, 1))
def test_the_fall_is_a_part_of_the_run(steps: int, fraction: float) -> None:
    assert 0 <= decay_start(steps, fraction) < steps
