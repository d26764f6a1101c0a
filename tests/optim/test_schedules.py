"""Schedules: a linear warm-up, no negative rate, no jumps, and a rate near zero at the end."""

from __future__ import annotations

import itertools
import math
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
def test_both_schedules_warm_up_to_the_peak_and_then_decay(plan: tuple[int, int, int], peak: float) -> None:
    warmup, decay_begins, steps = plan
    stable = [
        warmup_stable_decay(s, peak=peak, warmup=warmup, decay_start=decay_begins, steps=steps) for s in range(steps)
    ]
    cosine = [warmup_cosine(s, peak=peak, warmup=warmup, steps=steps) for s in range(steps)]
    for rates, begins in ((stable, decay_begins), (cosine, warmup)):
        assert all(0 <= rate <= peak * (1 + 1e-12) for rate in rates)
        assert all(a < b for a, b in itertools.pairwise(rates[:warmup]))
        if warmup:
            assert rates[warmup - 1] == pytest.approx(peak)
        assert all(a >= b for a, b in itertools.pairwise(rates[begins:]))
    assert all(rate == peak for rate in stable[warmup:decay_begins])
    # One more step would reach zero; 1 - sqrt(x) and the cosine both end below a linear decay to zero.
    last = 1 / (steps - decay_begins + 1)
    assert stable[-1] <= peak * last * 1.0001
    assert cosine[-1] <= peak * 2.5 / (steps - warmup + 1)


@given(st.integers(0, 400), st.integers(0, 200), st.integers(1, 200))
def test_the_rate_has_no_jumps(warmup: int, decay_begins: int, decay: int) -> None:
    steps = decay_begins + decay  # the warm-up may end in the decay, or after the run
    rates = [
        warmup_stable_decay(s, peak=1.0, warmup=warmup, decay_start=decay_begins, steps=steps) for s in range(steps)
    ]
    # The largest changes: a step of the warm-up, and the first step of the decay.
    allowed = max(1 / max(warmup, 1), (1 / (steps - decay_begins + 1)) ** 0.5) + 1e-12
    assert all(abs(a - b) <= allowed for a, b in itertools.pairwise(rates))


def test_the_smaller_rate_counts_where_the_warm_up_ends_within_the_decay() -> None:
    def rates(warmup: int) -> list[float]:
        return [warmup_stable_decay(s, peak=1.0, warmup=warmup, decay_start=80, steps=100) for s in range(100)]

    late, decay = rates(90), rates(0)
    assert late[:80] == [(s + 1) / 90 for s in range(80)]
    assert late[80:] == decay[80:]
    slow = rates(300)  # the run ends first
    assert slow[:90] == [(s + 1) / 300 for s in range(90)]
    assert slow[-1] == decay[-1]


@given(st.integers(0, 50), st.integers(1, 200), st.floats(0, 0.5))
def test_the_cosine_has_the_peak_after_the_warm_up_and_the_floor_at_the_last_step(
    warmup: int, decay: int, floor: float
) -> None:
    rates = [
        warmup_cosine(s, peak=1.0, warmup=warmup, steps=warmup + decay, floor=floor) for s in range(warmup + decay)
    ]
    assert rates[-1] == pytest.approx(floor, abs=1e-15)
    if warmup:
        assert rates[0] == pytest.approx(1 / warmup)
        assert rates[warmup - 1] == 1.0
        middle = [floor + (1 - floor) * (1 + math.cos(math.pi * t / decay)) / 2 for t in range(1, decay + 1)]
        assert rates[warmup:] == pytest.approx(middle)


def test_after_the_last_step_the_rate_is_zero_or_the_floor() -> None:
    assert warmup_stable_decay(50, peak=1.0, warmup=2, decay_start=10, steps=20) == 0
    assert warmup_cosine(50, peak=1.0, warmup=2, steps=20, floor=0.1) == pytest.approx(0.1)


@given(st.integers(1, 10_000))
def test_the_decay_begins_within_the_run(steps: int) -> None:
    assert 0 <= decay_start(steps) < steps
