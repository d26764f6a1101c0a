"""The arithmetic of attention follows the matmul backend, the precision and the values, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from minigrad.kernels.attention import plan as plans
from minigrad.kernels.attention.backward import attention_backward
from minigrad.kernels.attention.forward import attention_forward
from minigrad.kernels.attention.plan import Plan, arithmetic_for, is_moderate, moderate_sequences
from minigrad.kernels.attention.tiles import COLUMNS, KEYS
from minigrad.kernels.cpu import SPLIT, Block
from minigrad.kernels.gemm import backend as products
from tests.kernels.attention.twins import Array, attention, causal_case
from tests.kernels.codegen.twins import rounded
from tests.kernels.twin import leaves

pytestmark = pytest.mark.usefixtures("_restore_products")


def as_bfloat16(x: Array) -> Array:
    return (rounded(x) << 16).view(np.float32).reshape(x.shape)


SPLIT_TILES, TILES, PAIRS = (
    Block("tiles", 32, 32, 16, 16, 3),
    Block("tiles", 32, 32, 16, 16, 1),
    Block("bfloat16", 8, 32, 16),
)


@pytest.mark.parametrize(
    ("backend", "precision", "split", "bfloat16", "wanted"),
    [
        ("auto", "float32", None, None, (np.float32, False)),
        ("auto", "float32", None, PAIRS, (np.float32, False)),
        ("auto", "float32", SPLIT_TILES, TILES, (np.uint32, False)),
        ("blas", "float32", SPLIT_TILES, TILES, (np.float32, False)),
        ("auto", "bfloat16", None, None, (np.float32, True)),
        ("auto", "bfloat16", None, PAIRS, (np.int32, False)),
        ("auto", "bfloat16", SPLIT_TILES, TILES, (np.int32, False)),
        ("blas", "bfloat16", SPLIT_TILES, TILES, (np.int32, False)),
    ],
)
def test_the_choice_of_products_is_that_of_attention(
    monkeypatch: Any, backend: str, precision: str, split: Block | None, bfloat16: Block | None, wanted: Any
) -> None:
    products.use(backend, precision)
    monkeypatch.setattr(products, "SPLIT", split)
    monkeypatch.setattr(plans, "SMALL_BFLOAT16", bfloat16)
    x, y = np.ones((2, 3), np.float32), np.ones((2, 3))
    found = arithmetic_for(x, x)
    assert (found.packed.dtype, found.rounding) == wanted
    found = arithmetic_for(y, y)
    assert (found.packed.dtype, found.rounding) == (np.float64, False)
    found = arithmetic_for(x, np.full_like(x, np.inf))  # words hold no infinity
    assert (found.packed.dtype, found.rounding) == (np.float32, precision == "bfloat16")


def test_extreme_values_are_not_split(monkeypatch: Any) -> None:
    monkeypatch.setattr(products, "SPLIT", Block("tiles", 32, 32, 16, 16, 3))
    x = np.ones((2, 3), np.float32)
    for value in (np.inf, -np.inf, np.nan, 1e-30, 1e32):
        assert not is_moderate(x, np.full_like(x, value))
        assert arithmetic_for(x, np.full_like(x, value)).packed.dtype == np.float32
    assert not is_moderate(x * np.float32(1e-17), x * np.float32(1e-17))
    assert is_moderate(x, x * 0, x[:0], x * np.float32(1e-10), x * np.float32(-1e10))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_sequence_is_judged_by_its_own_values(precision: str) -> None:
    """Not by those of its neighbours, nor by what else lies in a cache: its result has the same bits alone."""
    products.use("auto", precision)
    q, k, v, plan = causal_case(np.float32, [40, 9, 30], past=3, heads=(2, 1, 5))
    plan_alone = Plan(plan.offsets[:2], plan.ranges[:1], plan.visible[:40], 0.3)
    alone = leaves(attention_forward(q[:40], k[:43], v[:43], plan_alone))
    for part, value in ((k[43:55], np.inf), (v[43:55], np.float32(1e30)), (q[40:49], np.float32(1e-35))):
        before = part.copy()
        part[...] = value
        several = leaves(attention_forward(q, k, v, plan))
        assert [x[:40].tobytes() for x in several] == [x.tobytes() for x in alone]
        part[...] = before
    lonely = Plan(np.array([0, 0, 9]), np.array([[0, 43], [43, 55]]), plan.visible[40:49], 0.3)
    expected = leaves(attention_forward(q[40:49], k, v, lonely))
    k[:43] = np.nan  # of a text that has no query now
    found = leaves(attention_forward(q[40:49], k, v, lonely))
    assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]


def test_which_sequences_are_moderate() -> None:
    q, k, v, plan = causal_case(np.float32, [4, 9, 3, 5], heads=(2, 1, 5))
    q[4:13] *= np.float32(1e-17)
    k[4:13] *= np.float32(1e-17)
    v[13, 0, 0] = np.nan
    rows = (x.reshape(len(x), -1) for x in (q, k, v))
    assert moderate_sequences(*rows, plan.offsets, plan.ranges).tolist() == [True, False, False, True]
    for first, last in ((0, 4), (4, 13), (13, 16), (16, 21)):
        part = (x[first:last] for x in (q, k, v))
        assert is_moderate(*part) == (first in (0, 16))


LENGTHS = [
    ([50], 0, None),
    ([2 * KEYS + 5], 0, None),  # keys in three tiles
    ([KEYS + COLUMNS + 1, 3], 0, 40),  # queries that see no key of the first tile
    ([7, 40], 2 * KEYS, KEYS + 9),
    ([200], 0, 64),
]


def windowed_case(lengths: list[int], past: int, window: int | None) -> Any:
    """Return queries, keys, values and a plan in float32, in which a query sees the last `window` keys."""
    q, k, v, plan = causal_case(np.float32, lengths, past, heads=(4, 2, 20))
    return q, k, v, plan if window is None else replace(plan, first_visible=np.maximum(plan.visible - window, 0))


@pytest.mark.parametrize(("lengths", "past", "window"), LENGTHS)
def test_bfloat16_rounds_the_factors_of_attention(lengths: list[int], past: int, window: int | None) -> None:
    q, k, v, plan = windowed_case(lengths, past, window)
    full, _ = attention_forward(q, k, v, plan)
    products.use("auto", "bfloat16")
    out, _ = attention_forward(q, k, v, plan)
    x, y, z = (as_bfloat16(each).astype(np.float64) for each in (q, k, v))
    wanted = attention(x, y, z, plan.offsets, plan.ranges, plan.scale, plan.seen)
    # Probabilities are rounded too, each by up to 2^-9 of it.
    np.testing.assert_allclose(out, wanted, rtol=0, atol=2.0**-9 * np.abs(z).max())
    assert np.abs(out - full).max() > 1e-4
    assert np.abs(out - wanted).max() > 1e-5
    q64, k64, v64 = (each.astype(np.float64) for each in (q, k, v))
    np.testing.assert_allclose(attention_forward(q64, k64, v64, plan)[0], full, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("lengths", "past", "window"), LENGTHS)
def test_gradients_in_bfloat16_are_close(lengths: list[int], past: int, window: int | None) -> None:
    q, k, v, plan = windowed_case(lengths, past, window)
    dout = np.random.default_rng(1).normal(size=q.shape).astype(np.float32)
    found = []
    for precision in ("float32", "bfloat16"):
        products.use("auto", precision)
        found.append(attention_backward(dout, q, k, v, *attention_forward(q, k, v, plan), plan))
    for full, low in zip(*found, strict=True):
        assert 1e-4 < np.abs(full - low).max() < 0.05 * np.abs(full).max()


def test_what_was_chosen_before_leaves_no_trace() -> None:
    q, k, v, plan = causal_case(np.float32, [50])
    first = {}
    for _ in range(2):
        for choice in (("auto", "float32"), ("auto", "bfloat16"), ("blas", "float32")):
            products.use(*choice)
            out = attention_forward(q, k, v, plan)[0].tobytes()
            assert first.setdefault(choice, out) == out
    assert (first["auto", "float32"] == first["blas", "float32"]) == (SPLIT is None)


def test_split_factors_give_what_elements_give() -> None:
    """In plain Python, or where there are tile registers; elsewhere both are the same."""
    q, k, v, plan = causal_case(np.float32, [9, 40], past=3, heads=(2, 1, 5))
    dout, found = np.random.default_rng(1).normal(size=q.shape).astype(np.float32), []
    for backend in ("auto", "blas"):
        products.use(backend)
        out, denominators = attention_forward(q, k, v, plan)
        found.append((out, *denominators, *attention_backward(dout, q, k, v, out, denominators, plan)))
    for split, whole in zip(*found, strict=True):
        np.testing.assert_allclose(split, whole, rtol=0, atol=2e-5)
