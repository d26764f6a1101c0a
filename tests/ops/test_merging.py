"""The merging scan: greedy from the left, strictly above the threshold, within a text; and rows without direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad.ops.merging import merged_rows
from tests.op_table import Array


def joins(x: Array, threshold: float, *offsets: int) -> list[int]:
    """Return the numbers of the rows that join the row before them."""
    return np.flatnonzero(merged_rows(x, np.array(offsets or (0, len(x))), threshold)).tolist()


def test_like_rows_pair_up_from_the_left() -> None:
    assert joins(np.ones((7, 3)), 0.9) == [1, 3, 5]
    # The second row goes with the first, though it is nearer to the third.
    assert joins(np.array([[1, 0], [4, 3], [4, 3]]) / 5, 0.7) == [1]
    assert joins(np.array([[1, 0], [4, 3], [4, 3]]) / 5, 0.9) == [2]


def test_no_pair_reaches_into_the_next_text() -> None:
    assert joins(np.ones((6, 3)), 0.9, 0, 1, 1, 4, 6) == [2, 5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_threshold_itself_is_not_enough(dtype: Any) -> None:
    x = np.array([[3, 4], [4, 3]], dtype)  # a cosine of 24 / 25
    assert joins(x, 24 / 25) == []
    assert joins(x, np.nextafter(24 / 25, 0)) == [1]


def test_only_the_direction_counts() -> None:
    # In float32 the squares of the largest and the smallest of these would be infinite and 0.
    x = np.array([[1, 2]]) * np.array([[1e-25], [1e25], [1], [3]])
    assert joins(x.astype(np.float32), 0.999) == [1, 3]


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_rows_without_a_direction_join_nothing(value: float) -> None:
    assert joins(np.full((3, 2), value), 0.5) == []


def test_no_rows() -> None:
    assert joins(np.zeros((0, 3)), 0.5, 0) == joins(np.zeros((0, 3)), 0.5, 0, 0, 0) == []
