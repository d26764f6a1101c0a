"""Small matrices as factors: however they are packed, their product is the product."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad.kernels.attention.factors import memory_for, pack_left, pack_right, product_with_panel
from minigrad.kernels.attention.tiles import COLUMNS, ROWS, LeftFactor, panel_product, round_up
from minigrad.kernels.codegen.amx import TILE_CONFIGURATION, configure_tiles, release_tiles
from minigrad.kernels.cpu import SMALL_BFLOAT16, SPLIT
from minigrad.kernels.gemm.packing import Matrix, pack_scratch
from tests.kernels.codegen.twins import rounded

Array = NDArray[Any]


def as_bfloat16(x: Array) -> Array:
    return (rounded(x) << 16).view(np.float32).reshape(x.shape)


@numba.njit
def _multiply(a: Matrix, b: Array, b_is_panel: bool, packed: Array, c: Array, add: bool) -> None:
    """Set the panel c, or add to it: a @ b, where b is (steps, COLUMNS), or transposed if it is no panel."""
    rows, steps = round_up(a.lanes, ROWS), a.steps
    scratch = pack_scratch(c.reshape(-1))
    left, right = LeftFactor(memory_for(packed, rows, steps), 0, rows, steps), memory_for(packed, COLUMNS, steps)
    pack_left(a, left, scratch)
    configure_tiles(TILE_CONFIGURATION)
    if b_is_panel:
        product_with_panel(left, b, steps, right, scratch, c, add)
    else:
        pack_right(Matrix(b, 0, steps, False, COLUMNS, steps), right, scratch)
        panel_product(left, right, steps, c, 0, add)
    release_tiles()


PACKED = [(np.float32, np.float32), (np.float64, np.float64)]
PACKED += [(np.float32, np.uint32)] if SPLIT is not None else []
PACKED += [(np.float32, np.int32)] if SMALL_BFLOAT16 is not None else []


@pytest.mark.parametrize("types", PACKED)
@given(
    m=st.sampled_from([1, 5, ROWS, ROWS + 1, 3 * ROWS]),
    k=st.sampled_from([1, 2, 31, 32, 33, 64, 100]),
    transposed=st.booleans(),
    b_is_panel=st.booleans(),
    add=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_a_product_of_factors(
    types: Any, m: int, k: int, transposed: bool, b_is_panel: bool, add: bool, seed: int
) -> None:
    rng, (dtype, packed) = np.random.default_rng(seed), types
    a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, COLUMNS)).astype(dtype)
    lines = a.T if transposed else a
    wide = np.full((len(lines), lines.shape[1] + 2), np.nan, dtype)  # what is beside a must not be taken for a
    wide[:, 1:-1] = lines
    before = rng.normal(size=(round_up(m, ROWS), COLUMNS)).astype(dtype)
    c = before.copy().reshape(-1) if add else np.full(before.size, np.nan, dtype)
    given_b = b if b_is_panel else np.ascontiguousarray(b.T)
    matrix = Matrix(wide.reshape(-1), 1, wide.shape[1], transposed, m, k)
    _multiply(matrix, given_b.reshape(-1).copy(), b_is_panel, np.empty(0, packed), c, add)
    if packed is np.int32:
        a, b = as_bfloat16(a), as_bfloat16(b)
    wanted = np.zeros(before.shape)
    wanted[:m] = a.astype(np.float64) @ b
    size = np.abs(a).astype(np.float64) @ np.abs(b) + (np.abs(before[:m]) if add else 0)
    got, unit = c.reshape(before.shape), float(np.finfo(dtype).eps)
    error = np.abs(got[:m] - wanted[:m] - (before[:m] if add else 0))
    assert (error <= (k + 3) * unit * size).all()
    if not add:
        assert not got[m:].any()


@numba.njit
def _addresses(like: Array, count: int) -> Array:
    found = np.empty(count, np.int64)
    for i in range(count):
        found[i] = memory_for(like, 3 * i + 1, i + 1).ctypes.data
    return found


def test_memory_for_words_begins_where_a_cache_line_does() -> None:
    assert memory_for(np.empty(0, np.float64), 3, 5).shape == (15,)
    for kind, block in ((np.uint32, SPLIT), (np.int32, SMALL_BFLOAT16)):
        if block is not None:
            assert (_addresses(np.empty(0, kind), 9) % 64 == 0).all()
