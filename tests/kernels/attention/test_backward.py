"""Attention backward: gradients across tiles and panels, of keys without queries, and with dropout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from minigrad.kernels.attention import plan as plans
from minigrad.kernels.attention.backward import attention_backward
from minigrad.kernels.attention.forward import attention_forward
from minigrad.kernels.attention.plan import Denominators, Gradients, Plan, arithmetic_for
from minigrad.kernels.attention.tile_gradients import Saved
from minigrad.kernels.attention.tiles import COLUMNS, KEYS
from minigrad.kernels.gemm import backend
from minigrad.kernels.rowwise.dropout import Stream
from tests.kernels.attention.twins import TWINS, causal_case

TOLERANCE = {np.float32: 2e-4, np.float64: 1e-11}


def wanted(dout: Any, q: Any, k: Any, v: Any, plan: Plan) -> list[Any]:
    """Return the gradients with the whole matrix of probabilities stored, in float64."""
    dout, q, k, v = (each.astype(np.float64) for each in (dout, q, k, v))
    inputs = plan.inputs(arithmetic_for(q, k, v), q, k, v)
    gradients = Gradients(*(np.zeros_like(each) for each in inputs[:3]))
    of_no_key = Denominators(np.zeros(q.shape[:2]), np.zeros(q.shape[:2]))
    saved = Saved(dout.reshape(len(q), -1), np.zeros_like(inputs.q), of_no_key)
    TWINS["attention.backward._attention_backward_tasks"].twin(inputs, saved, gradients, 0, plan.num_tasks(k))
    return [gradient.reshape(each.shape) for gradient, each in zip(gradients, (q, k, v), strict=True)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(
    ("lengths", "past"), [([1], 0), ([COLUMNS + 1], 0), ([KEYS - 1, 3], 0), ([KEYS + 70], 0), ([7, 40], KEYS)]
)
def test_gradients_on_both_sides_of_a_tile_and_a_panel(
    dtype: Any, dropout: float, lengths: list[int], past: int
) -> None:
    q, k, v, plan = causal_case(dtype, lengths, past, heads=(2, 1, 5))
    plan = Plan(plan.offsets, plan.ranges, plan.visible, plan.scale, dropout, Stream(1, 2, 3))
    dout = np.random.default_rng(1).normal(size=q.shape).astype(dtype)
    got = attention_backward(dout, q, k, v, *attention_forward(q, k, v, plan), plan)
    for gradient, each in zip(got, wanted(dout, q, k, v, plan), strict=True):
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, each, rtol=0, atol=TOLERANCE[dtype] * max(1, np.abs(each).max()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", [1, COLUMNS + 5, KEYS])
@pytest.mark.parametrize(("lengths", "past"), [([KEYS + COLUMNS + 1, 3], 0), ([7, 40], KEYS)])
def test_gradients_with_a_window(dtype: Any, window: int, lengths: list[int], past: int) -> None:
    q, k, v, plan = causal_case(dtype, lengths, past, heads=(2, 1, 5))
    plan = replace(plan, first_visible=np.maximum(plan.visible - window, 0), dropout=0.2, stream=Stream(1, 2, 3))
    dout = np.random.default_rng(1).normal(size=q.shape).astype(dtype)
    got = attention_backward(dout, q, k, v, *attention_forward(q, k, v, plan), plan)
    for gradient, each in zip(got, wanted(dout, q, k, v, plan), strict=True):
        np.testing.assert_allclose(gradient, each, rtol=0, atol=TOLERANCE[dtype] * max(1, np.abs(each).max()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_before_a_window_reaches_no_later_query(dtype: Any, value: float) -> None:
    q, k, v, plan = causal_case(dtype, [60], KEYS)
    plan, dout = replace(plan, first_visible=np.maximum(plan.visible - 8, 0)), np.ones_like(q)
    clean = attention_backward(dout, q, k, v, *attention_forward(q, k, v, plan), plan)
    k[KEYS + 20, 0, 1] = value
    got = attention_backward(dout, q, k, v, *attention_forward(q, k, v, plan), plan)
    for part, (each, before) in zip((28, KEYS + 28, KEYS + 28), zip(got, clean, strict=True), strict=True):
        np.testing.assert_allclose(each[part:], before[part:], rtol=0, atol=10 * TOLERANCE[dtype])


def test_keys_that_no_query_sees_get_zero() -> None:
    q, k, v, plan = causal_case(np.float32, [4, 6], past=3)
    apart = np.array([[0, 7], [9, 18]])  # rows 7 and 8 belong to no sequence
    k, v = (np.concatenate([each[:7], np.full((2, *each.shape[1:]), np.nan, np.float32), each[7:]]) for each in (k, v))
    plan = Plan(plan.offsets, apart, np.minimum(plan.visible, 5), 0.3)
    dq, dk, dv = attention_backward(np.ones_like(q), q, k, v, *attention_forward(q, k, v, plan), plan)
    assert np.isfinite(dq).all()
    for gradient in (dk, dv):
        assert not gradient[[5, 6, 7, 8, 14, 15, 16, 17]].any()
        assert gradient[[0, 4, 9, 13]].any(axis=(1, 2)).all()


def test_a_query_that_sees_no_key_has_no_gradient() -> None:
    q, k, v, plan = causal_case(np.float64, [5])
    plan = Plan(plan.offsets, plan.ranges, np.array([0, 0, 1, 3, 3]), 0.3)
    dq, dk, _ = attention_backward(np.ones_like(q), q, k, v, *attention_forward(q, k, v, plan), plan)
    assert not dq[:2].any()
    assert np.isfinite(dk).all()
    assert dq[3:].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seen", [2 * COLUMNS, 2 * COLUMNS + 1, KEYS, KEYS + COLUMNS])
def test_a_panel_of_queries_that_see_no_key_has_no_gradient(dtype: Any, seen: int) -> None:
    q, k, v, plan = causal_case(dtype, [seen + COLUMNS], heads=(1, 1, 5))
    blind = np.arange(seen + COLUMNS) >= seen
    bounds = {"visible": np.where(blind, seen, plan.visible), "first_visible": np.where(blind, seen, 0)}
    plan, dout = replace(plan, **bounds), np.random.default_rng(1).normal(size=q.shape).astype(dtype)
    out, denominators = attention_forward(q, k, v, plan)
    assert not out.reshape(q.shape)[blind].any()
    assert (denominators.largest[blind] == -np.inf).all()
    assert not denominators.total[blind].any()
    got = attention_backward(dout, q, k, v, out, denominators, plan)
    assert not got[0][blind].any()
    for gradient, each in zip(got, wanted(dout, q, k, v, plan), strict=True):
        np.testing.assert_allclose(gradient, each, rtol=0, atol=TOLERANCE[dtype] * max(1, np.abs(each).max()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["q", "k", "v", "dout"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_reaches_the_pairs_that_see_it_only(dtype: Any, value: float, name: str) -> None:
    """A query gets no gradient from later keys, and a key none from earlier queries, whatever their values are."""
    past, place = KEYS - 20, 30
    q, k, v, plan = causal_case(dtype, [60], past)
    clean = {"q": q, "k": k, "v": v, "dout": np.random.default_rng(1).normal(size=q.shape).astype(dtype)}
    given = {key: each.copy() for key, each in clean.items()}
    given[name][place + (past if name in "kv" else 0), 0, 1] = value
    found = []
    for case in (clean, given):
        q, k, v, dout = (case[key] for key in ("q", "k", "v", "dout"))
        found.append(attention_backward(dout, q, k, v, *attention_forward(q, k, v, plan), plan))
    for before, (wanted, got) in enumerate(zip(*found, strict=True)):
        if name in "kv":  # earlier queries do not see the key; all keys before it are seen by later ones
            part = slice(0, place) if before == 0 else slice(0, 0)
        else:  # later keys are not seen by the query, other queries do not depend on it
            part = np.arange(len(wanted)) != place if before == 0 else slice(past + place + 1, None)
        np.testing.assert_allclose(got[part], wanted[part], rtol=0, atol=10 * TOLERANCE[dtype])
        assert np.isfinite(got[:, 2 if before == 0 else 1 :]).all()  # the other heads
    assert not all(np.isfinite(got).all() for got in found[1])


@pytest.mark.parametrize("shift", [0.0, 4.0])
def test_gradients_in_bfloat16_do_not_depend_on_what_multiplies(shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All values have a large part in common, which cancels only between sums of equally rounded elements."""
    monkeypatch.setattr(backend, "_precision", "bfloat16")
    q, k, v, plan = causal_case(np.float32, [128], 0, heads=(2, 1, 32))
    v = v + np.float32(shift)
    dout = np.random.default_rng(1).normal(size=q.shape).astype(np.float32)
    found = []
    for instructions in (True, False):
        if not instructions:
            monkeypatch.setattr(plans, "SMALL_BFLOAT16", None)
        found.append(attention_backward(dout, q, k, v, *attention_forward(q, k, v, plan), plan))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=5e-4 * np.abs(other).max())
