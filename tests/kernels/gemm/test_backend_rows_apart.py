"""Where rows are kept apart, a row of a product has the same bits among any others, whatever their values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

from minigrad.errors import InputError
from minigrad.kernels.cpu import FLOAT32, SPLIT
from minigrad.kernels.gemm.backend import are_rows_apart, can_keep_rows_apart, product, rows_apart, use
from minigrad.kernels.gemm.panels import extremes_of
from minigrad.typing import Array

SHAPES = [(32, 96), (96, 96), (700, 300), (16, 9)]
"""Columns and depths of narrow products, of products that BLAS computes, and of products in several sections."""


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    use()


def factors(rows: int, columns: int, depth: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(rows)
    return (rng.normal(size=shape).astype(np.float32) for shape in ((rows, depth), (columns, depth)))  # type: ignore[return-value]


@pytest.mark.skipif(FLOAT32 is None, reason="there are no loops of our own for this processor")
@pytest.mark.parametrize(("columns", "depth"), SHAPES)
def test_a_row_has_the_same_bits_among_any_others(columns: int, depth: int) -> None:
    a, weight = factors(900, columns, depth)
    with rows_apart():
        whole = product(a, weight.T)
        for start, stop in ((0, 1), (3, 8), (70, 134), (100, 620), (899, 900)):
            part = product(np.ascontiguousarray(a[start:stop]), weight.T)
            assert part.tobytes() == whole[start:stop].tobytes()
    np.testing.assert_allclose(whole, a.astype(np.float64) @ weight.T, rtol=0, atol=1e-5 * np.sqrt(depth))


@pytest.mark.skipif(FLOAT32 is None, reason="there are no loops of our own for this processor")
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e30, 1e-38])
def test_an_extreme_value_changes_no_other_row(value: float) -> None:
    a, weight = factors(80, 70, 96)
    with rows_apart():
        before = product(a, weight.T)
        a[5] *= np.float32(1e-8)
        a[5, 3] = value
        after = product(a, weight.T)
        alone = product(np.ascontiguousarray(a[5:6]), weight.T)
    others = np.arange(80) != 5
    assert after[others].tobytes() == before[others].tobytes()
    assert after[5:6].tobytes() == alone.tobytes()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(after[5], weight.astype(np.float64) @ a[5].astype(np.float64), rtol=1e-4, atol=1e-12)


@pytest.mark.skipif(SPLIT is None, reason="only products in tiles depend on the values of other rows")
def test_without_it_rows_depend_on_others() -> None:
    """So the comparisons above can fail."""
    a, weight = factors(80, 70, 96)
    before = product(a, weight.T)
    a[5, 3] = np.inf
    assert product(a, weight.T)[:5].tobytes() != before[:5].tobytes()


def test_it_is_possible_where_our_own_loops_multiply_float32() -> None:
    assert can_keep_rows_apart(np.float32) == (FLOAT32 is not None)
    assert not can_keep_rows_apart(np.float64)
    use("blas")
    assert not can_keep_rows_apart(np.float32)
    use("auto", "bfloat16")
    assert not can_keep_rows_apart(np.float32)


def test_it_ends_with_its_block() -> None:
    assert not are_rows_apart()
    with rows_apart():
        assert are_rows_apart()
    with contextlib.suppress(InputError), rows_apart():
        raise InputError("an error within")
    assert not are_rows_apart()


def test_the_extremes_of_a_row_leave_out_zeros() -> None:
    assert extremes_of(np.array([0, -3, 2], np.float32)) == (3, 2)
    assert extremes_of(np.zeros(4, np.float32)) == (0, 0)
    assert not np.isfinite(extremes_of(np.array([1, np.nan], np.float32)).largest)
