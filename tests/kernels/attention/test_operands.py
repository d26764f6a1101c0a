"""Small matrices as factors: packed this way or that, their product is the product."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad.kernels.attention.operands import as_right, pack_left, pack_right, room_for
from minigrad.kernels.attention.tiles import COLUMNS, ROWS, panel_product, whole
from minigrad.kernels.codegen.amx import TILE_SHAPES, begin_blocks, end_blocks
from minigrad.kernels.codegen.vector_moves import SIDE

Array = NDArray[Any]


@numba.njit
def _multiply(a: Array, across: bool, m: int, k: int, b: Array, b_is_panel: bool, c: Array, add: bool) -> None:
    """c[whole(m, ROWS), COLUMNS] = (or +=) a @ b; a is (m, k), or (k, m) if `across`, b (k, COLUMNS) or on its side."""
    rows = whole(m, ROWS)
    edge, square = np.empty(2 * SIDE * SIDE, a.dtype), np.empty(3 * SIDE * SIDE, np.uint32)
    left, right = room_for(a, rows, k), room_for(a, COLUMNS, k)
    if across:
        pack_left(a, 1, m + 2, True, m, k, rows, k, left, 0, edge, square)
    else:
        pack_left(a, 1, k + 2, False, m, k, rows, k, left, 0, edge, square)
    begin_blocks(TILE_SHAPES)
    if b_is_panel:
        panel_product(left, 0, k, rows, as_right(b, k, right, edge, square), 0, k, c, 0, add)
    else:
        pack_right(b, 0, k, k, right, edge, square)
        panel_product(left, 0, k, rows, right, 0, k, c, 0, add)
    end_blocks(TILE_SHAPES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    m=st.sampled_from([1, 5, ROWS, ROWS + 1, 3 * ROWS]),
    k=st.sampled_from([1, 2, 31, 32, 33, 64, 100]),
    across=st.booleans(),
    b_is_panel=st.booleans(),
    add=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_a_product_of_factors(dtype: Any, m: int, k: int, across: bool, b_is_panel: bool, add: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, COLUMNS)).astype(dtype)
    lying = a.T if across else a
    wide = np.full((len(lying), lying.shape[1] + 2), np.nan, dtype)  # what is beside a must not be taken for a
    wide[:, 1:-1] = lying
    before = rng.normal(size=(whole(m, ROWS), COLUMNS)).astype(dtype)
    c = before.copy().reshape(-1) if add else np.full(before.size, np.nan, dtype)
    given = b if b_is_panel else np.ascontiguousarray(b.T)
    _multiply(wide.reshape(-1), across, m, k, given.reshape(-1).copy(), b_is_panel, c, add)
    wanted = np.zeros(before.shape)
    wanted[:m] = a.astype(np.float64) @ b
    size = np.abs(a).astype(np.float64) @ np.abs(b) + (np.abs(before[:m]) if add else 0)
    got, unit = c.reshape(before.shape), float(np.finfo(dtype).eps)
    error = np.abs(got[:m] - wanted[:m] - (before[:m] if add else 0))
    assert (error <= (k + 3) * unit * size).all()
    if not add:
        assert not got[m:].any()
