"""The context grows by 1.5 and shrinks by 0.8 within its bounds, and not at the first measurement that asks for it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
from minigrad.adaptive.context import GROW_ABOVE, SHRINK_BELOW, AdaptiveContext
from minigrad.adaptive.signals import Signals, measure
from minigrad.errors import InputError
from minigrad.nn import Layout


def signals(need: float, diversity_gain: float = -0.1, tokens: int = 1_024) -> Signals:
    return Signals(need, 20.0, 3.0, 0.5, diversity_gain, tokens)


def contexts(adaptive: AdaptiveContext, *needs: float, **more: float) -> list[int]:
    return [adaptive.decide(place, signals(need, **more)).context for place, need in enumerate(needs)]


def test_two_measurements_in_a_row_change_the_context_within_its_bounds() -> None:
    adaptive = AdaptiveContext.up_to(256, begin=0.25)
    assert (adaptive.smallest, adaptive.current, adaptive.largest) == (32, 64, 256)
    assert contexts(adaptive, *[0.1] * 8) == [64, 96, 96, 144, 144, 216, 216, 256]
    assert contexts(adaptive, *[0.0] * 6) == [256, 204, 204, 163, 163, 130]
    assert contexts(adaptive, *[0.0] * 20)[-1] == 32


def test_between_the_thresholds_and_between_opposite_wishes_it_stays() -> None:
    adaptive = AdaptiveContext.up_to(256, begin=0.5)
    between = (GROW_ABOVE + SHRINK_BELOW) / 2
    assert contexts(adaptive, between, 0.1, 0.0, 0.1, between, 0.1, 0.0) == [128] * 7


def test_attention_that_narrows_without_the_farther_half_keeps_it() -> None:
    assert contexts(AdaptiveContext.up_to(256), *[0.0] * 4, diversity_gain=0.01) == [256] * 4
    assert contexts(AdaptiveContext.up_to(256), *[0.0] * 4, diversity_gain=0.002) == [256, 204, 204, 163]
    assert contexts(AdaptiveContext.up_to(256), *[0.0] * 4, diversity_gain=math.nan) == [256, 204, 204, 163]


@pytest.mark.parametrize("family", ["vidya-v2", "gpt2"])
def test_random_tokens_and_random_weights_shrink_it(family: str) -> None:
    adaptive, needs = AdaptiveContext.up_to(128), list[float]()
    model = models.build(family, size="nano", vocab_size=256, num_layers=2)
    for place in range(12):
        ids, held = np.random.default_rng(place).integers(0, 256, 1_025), adaptive.current
        layout = Layout.packed([held] * (1_024 // held))
        rows = layout.offsets[-1]
        found = measure(model, ids[:rows], ids[1 : rows + 1], layout, held)
        assert found is not None
        needs.append(adaptive.decide(place, found).need)
    assert max(needs) < GROW_ABOVE  # the first is the need of 8 x 128 random tokens, a noisy figure
    assert abs(np.mean(needs)) < SHRINK_BELOW / 2
    assert adaptive.current < 64


def test_a_large_gradient_keeps_it_from_growing() -> None:
    adaptive = AdaptiveContext.up_to(256, begin=0.25)
    for norm in (1.0, 1.0, 3.0):
        adaptive.note_norm(norm)
    assert adaptive.usual_norm == pytest.approx(1.04)
    assert contexts(adaptive, 0.1, 0.1) == [64, 64]
    adaptive.note_norm(1.1)
    assert contexts(adaptive, 0.1, 0.1) == [64, 96]
    assert adaptive.decisions[-1].gradient_norm == 1.1


def test_a_few_tokens_weigh_little() -> None:
    adaptive = AdaptiveContext.up_to(256)
    assert contexts(adaptive, -0.05, 0.05, -0.05, 0.05, tokens=32) == [256] * 4
    assert adaptive.need == pytest.approx(0.0075, abs=0.002)


def test_every_decision_is_noted_with_what_was_measured() -> None:
    adaptive = AdaptiveContext.up_to(8)
    adaptive.decide(7, Signals(0.0075, 20.0, 3.0, math.nan, math.nan, 1_024))
    (noted,) = adaptive.decisions
    assert (noted.place, noted.before, noted.context, noted.perplexity, noted.entropy) == (7, 8, 8, 20.0, 3.0)
    assert noted.diversity is None
    assert noted.gradient_norm is None


@given(st.integers(1, 10**6), st.floats(0, 1), st.lists(st.floats(-1, 1), max_size=40))
def test_the_bounds_hold_whatever_is_measured(largest: int, begin: float, needs: list[float]) -> None:
    adaptive = AdaptiveContext.up_to(largest, begin=begin)
    assert 1 <= adaptive.smallest <= adaptive.current <= adaptive.largest == largest
    assert all(adaptive.smallest <= each <= largest for each in contexts(adaptive, *needs))


def test_a_context_out_of_its_bounds_is_refused() -> None:
    with pytest.raises(InputError, match="the context must lie between 8 and 64, not be 7"):
        AdaptiveContext(8, 64, 7)
