"""The merging decision: from left to right, strictly above the threshold, within a sequence; and rows of zero norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import ShapeError
from models.wiola.merging import merged_rows, merged_rows_formula
from tests.op_cases import sequences
from tests.op_table import Array


def merged(x: Array, threshold: float, *offsets: int) -> list[int]:
    """Return the indices of the rows that merge into the row before them."""
    return np.flatnonzero(merged_rows(x, np.array(offsets or (0, len(x))), threshold)).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(offsets=sequences(), threshold=st.sampled_from([0.9, 0.5, -0.5]), data=st.data())
def test_the_decision_is_that_of_the_formula(dtype: Any, offsets: Array, threshold: float, data: st.DataObject) -> None:
    # Directions 45 degrees apart and one row of zeros: no cosine comes close to the threshold.
    directions = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [-1, 1]], dtype)
    rows = int(offsets[-1])
    x = 3 * directions[np.array(data.draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows)), int)]
    np.testing.assert_array_equal(merged_rows(x, offsets, threshold), merged_rows_formula(x, offsets, threshold))


def test_equal_rows_merge_in_pairs_from_the_left() -> None:
    assert merged(np.ones((7, 3)), 0.9) == [1, 3, 5]
    # The second row merges into the first, though it is closer to the third.
    assert merged(np.array([[1, 0], [4, 3], [4, 3]]) / 5, 0.7) == [1]
    assert merged(np.array([[1, 0], [4, 3], [4, 3]]) / 5, 0.9) == [2]


def test_rows_of_different_sequences_do_not_merge() -> None:
    assert merged(np.ones((6, 3)), 0.9, 0, 1, 1, 4, 6) == [2, 5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cosine_equal_to_the_threshold_does_not_merge(dtype: Any) -> None:
    x = np.array([[3, 4], [4, 3]], dtype)  # a cosine of 24 / 25
    assert merged(x, 24 / 25) == []
    assert merged(x, np.nextafter(24 / 25, 0)) == [1]


def test_only_the_direction_of_a_row_counts() -> None:
    # In float32 the squares of the largest and the smallest of these would be infinite and 0.
    x = np.array([[1, 2]]) * np.array([[1e-25], [1e25], [1], [3]])
    assert merged(x.astype(np.float32), 0.999) == [1, 3]


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_rows_without_a_direction_do_not_merge(value: float) -> None:
    assert merged(np.full((3, 2), value), 0.5) == []


def test_no_rows_give_no_merges() -> None:
    assert merged(np.zeros((0, 3)), 0.5, 0) == merged(np.zeros((0, 3)), 0.5, 0, 0, 0) == []


def test_offsets_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="merged_rows"):
        merged_rows(np.ones((3, 2)), np.array([0, 9]), 0.5)
    assert not merged_rows(np.ones((3, 0)), np.array([0, 3]), 0.5).any()
