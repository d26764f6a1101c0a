"""Attention forward: more keys than a tile and more queries than a panel, windows, and extreme scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest

from minigrad.kernels.attention.forward import RunningSoftmax, attention_forward, softmax_step
from minigrad.kernels.attention.plan import Plan, Seen
from minigrad.kernels.attention.tiles import COLUMNS, KEYS, Tile
from minigrad.kernels.rowwise.dropout import Stream
from tests.kernels.attention.twins import Array, attention, causal_case
from tests.kernels.machine_code import vector_loads

TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}


def reference(q: Array, k: Array, v: Array, plan: Plan) -> Array:
    x, y, z = (each.astype(np.float64) for each in (q, k, v))
    return attention(x, y, z, plan.offsets, plan.ranges, plan.scale, plan.seen)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("lengths", "past"),
    [([1], 0), ([1, 1], KEYS), ([COLUMNS + 1], 0), ([KEYS - 1, 3], 0), ([2 * KEYS + 5], 0), ([7, 40], 2 * KEYS)],
)
def test_attention_on_both_sides_of_a_tile_and_a_panel(dtype: Any, lengths: list[int], past: int) -> None:
    q, k, v, plan = causal_case(dtype, lengths, past)
    out, denominators = attention_forward(q, k, v, plan)
    assert out.dtype == denominators.largest.dtype == denominators.total.dtype == dtype
    np.testing.assert_allclose(out, reference(q, k, v, plan), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", [1, COLUMNS, COLUMNS + 5, KEYS, 2 * KEYS + 3])
@pytest.mark.parametrize(("lengths", "past"), [([KEYS + COLUMNS + 1, 3], 0), ([7, 40], 2 * KEYS), ([3 * KEYS], 5)])
def test_a_window_on_both_sides_of_a_tile_and_a_panel(dtype: Any, window: int, lengths: list[int], past: int) -> None:
    q, k, v, plan = causal_case(dtype, lengths, past)
    plan = replace(plan, first_visible=np.maximum(plan.visible - window, 0))
    out, _ = attention_forward(q, k, v, plan)
    np.testing.assert_allclose(out, reference(q, k, v, plan), rtol=0, atol=TOLERANCE[dtype])


def test_a_query_whose_bounds_meet_sees_no_key() -> None:
    q, k, v, plan = causal_case(np.float32, [5])
    plan = replace(plan, first_visible=np.array([0, 1, 3, 4, 4]))
    out, (largest, total) = attention_forward(q, k, v, plan)
    assert np.isneginf(largest).any(axis=1).tolist() == [False, False, True, True, False]
    assert (total == 0).all(axis=1).tolist() == [False, False, True, True, False]
    np.testing.assert_allclose(out[[1, 4]], v[[1, 4]].repeat(2, axis=1), rtol=1e-6)
    assert not out[2:4].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_far_apart_give_the_largest_all_the_probability(dtype: Any) -> None:
    q, k, v, plan = causal_case(dtype, [40])
    out, (largest, total) = attention_forward(q * dtype(1e4), k, v, plan)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out, reference(q * dtype(1e4), k, v, plan), rtol=0, atol=1e-4)
    assert (np.abs(largest) > 1e3).any()  # exp of such a score would overflow in float32
    assert (total >= 1).all()
    assert (total <= 40).all()


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_the_softmax_of_a_tile_is_computed_in_vector_registers() -> None:
    numbers, counts = numba.float32[::1], numba.int32[::1]
    tile = numba.types.NamedTuple((numba.int64, numba.int64), Tile)
    running = numba.types.NamedTuple((numbers,) * 4, RunningSoftmax)
    seen = numba.types.NamedTuple((counts, counts), Seen)
    loads = vector_loads(softmax_step, (numbers, tile, seen, numba.float32, running))
    assert any(kind.endswith(" float>") for kind in loads)


def test_a_query_that_sees_no_key_gets_zero() -> None:
    q, k, v, plan = causal_case(np.float32, [5])
    none = Plan(plan.offsets, plan.ranges, np.array([0, 0, 1, 1, 2]), 0.3)
    out, (largest, total) = attention_forward(q, k, v, none)
    assert not out[:2].any()
    assert np.isneginf(largest[:2]).all()
    assert not total[:2].any()
    np.testing.assert_allclose(out[2], np.repeat(v[0], 2, axis=0), rtol=1e-6)


def test_a_sequence_gets_the_same_bits_alone_and_among_others() -> None:
    q, k, v, plan = causal_case(np.float32, [30, 300, 9])
    together, _ = attention_forward(q, k, v, plan)
    rows = slice(30, 330)
    alone = Plan(np.array([0, 300]), np.array([[0, 300]]), plan.visible[rows], 0.3)
    assert attention_forward(q[rows], k[rows], v[rows], alone)[0].tobytes() == together[rows].tobytes()


def test_dropped_probabilities_are_those_of_the_draws_and_the_rest_is_scaled_up() -> None:
    q, k, v, plan = causal_case(np.float64, [8])
    dropped = Plan(plan.offsets, plan.ranges, plan.visible, 0.3, dropout=0.5, stream=Stream(1, 2, 3))
    uniform = np.zeros_like(q)
    out, _ = attention_forward(uniform, k, np.ones_like(v), dropped)
    counts = out * np.arange(1, 9)[:, None, None] / 2  # of the keys that are not dropped
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    assert 0.2 < counts[-1].mean() / 8 < 0.8
    again, _ = attention_forward(uniform, k, np.ones_like(v), dropped)
    assert again.tobytes() == out.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("past", [0, KEYS - 20])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_before_a_window_stays_outside(dtype: Any, value: float, past: int) -> None:
    q, k, v, plan = causal_case(dtype, [60], past)
    plan = replace(plan, first_visible=np.maximum(plan.visible - 8, 0))
    clean, _ = attention_forward(q, k, v, plan)
    for name in ("k", "v"):
        given = {"k": k.copy(), "v": v.copy()}
        given[name][past + 30, 0, 1] = value
        out, _ = attention_forward(q, given["k"], given["v"], plan)
        assert not np.isfinite(out[30:38, 0]).all()
        np.testing.assert_allclose(out[38:], clean[38:], rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("past", [0, KEYS - 20])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_later_key_or_value_that_is_not_finite_leaves_earlier_rows_as_they_are(
    dtype: Any, value: float, past: int
) -> None:
    q, k, v, plan = causal_case(dtype, [60], past)
    clean, clean_denominators = attention_forward(q, k, v, plan)
    for name in ("k", "v"):
        given = {"k": k.copy(), "v": v.copy()}
        given[name][past + 30, 0, 1] = value
        out, denominators = attention_forward(q, given["k"], given["v"], plan)
        np.testing.assert_allclose(out[:30], clean[:30], rtol=0, atol=TOLERANCE[dtype])
        for found, wanted in zip(denominators, clean_denominators, strict=True):
            np.testing.assert_allclose(found[:30], wanted[:30], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(out[:, 2:], clean[:, 2:], rtol=0, atol=TOLERANCE[dtype])  # the other heads
        assert not np.isfinite(out[30:, 0]).all()
