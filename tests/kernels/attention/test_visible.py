"""Sums over the pairs that see each other: what is not seen may hold anything."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.attention.plan import Seen
from minigrad.kernels.attention.tiles import COLUMNS, ROWS, Tile
from minigrad.kernels.attention.visible import add_keys, add_rows, all_finite
from minigrad.kernels.gemm.packing import Matrix


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_element_that_is_not_finite_is_found_and_what_lies_beside_the_matrix_is_not(
    dtype: type, value: float
) -> None:
    for place in range(20):
        x = np.ones(20, dtype)
        x[place] = value
        inside = place >= 1 and (place - 1) % 6 < 5 and place < 18
        assert all_finite(Matrix(x, 1, 6, False, 3, 5)) == (not inside)


def test_pairs_that_do_not_see_each_other_are_left_out() -> None:
    tile, weights = Tile(0, COLUMNS), np.ones(COLUMNS * COLUMNS, np.float32)
    visible = np.arange(1, COLUMNS + 1, dtype=np.int32)  # query j sees the keys up to j
    seen = Seen(np.zeros(COLUMNS, np.int32), visible)
    lines = np.ones((COLUMNS, 2), np.float32)
    lines[5] = np.nan
    sums = np.zeros(2 * COLUMNS, np.float32)
    add_keys(weights, tile, seen, Matrix(lines.reshape(-1), 0, 2, False, COLUMNS, 2), sums)
    np.testing.assert_array_equal(sums[:COLUMNS], np.where(visible > 5, np.nan, visible))
    sums = np.zeros(ROWS * COLUMNS, np.float32)  # two rows of values, padded
    add_rows(weights, tile, seen, Matrix(lines.reshape(-1), 0, 2, False, COLUMNS, 2), sums)
    seen_by = COLUMNS - np.arange(COLUMNS)
    np.testing.assert_array_equal(sums[:COLUMNS], np.where(np.arange(COLUMNS) <= 5, np.nan, seen_by))
