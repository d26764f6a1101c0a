"""Layouts: the rows and positions of rectangular and of packed batches."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import ShapeError
from minigrad.nn import Layout


def test_the_layout_of_a_rectangular_batch() -> None:
    layout = Layout.rectangular(2, 3)
    assert layout.offsets.tolist() == [0, 3, 6]
    assert layout.positions.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_batch_may_be_empty() -> None:
    assert Layout.rectangular(0, 3).offsets.tolist() == [0]
    empty = Layout.rectangular(2, 0)
    assert (empty.offsets.tolist(), empty.positions.tolist()) == ([0, 0, 0], [])


def test_packed_sequences_begin_at_position_zero() -> None:
    layout = Layout.packed([2, 0, 3])
    assert layout.offsets.tolist() == [0, 2, 2, 5]
    assert layout.positions.tolist() == [0, 1, 0, 1, 2]
    assert layout.lengths.tolist() == [2, 0, 3]
    assert Layout.packed([]).offsets.tolist() == [0]
    equal, rectangular = Layout.packed([3, 3]), Layout.rectangular(2, 3)
    for name in ("offsets", "positions"):
        ours, theirs = getattr(equal, name), getattr(rectangular, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_packed_sequences_continue_after_earlier_tokens() -> None:
    assert Layout.packed([2, 0, 3], past=4).positions.tolist() == [4, 5, 4, 5, 6]
    assert Layout.packed([2, 0, 3], past=[7, 1, 0]).positions.tolist() == [7, 8, 0, 1, 2]


@pytest.mark.parametrize("lengths", [[2, -1], [[1, 2]], [1.7, 2.2], [2.0], ["2"], [True]])
def test_lengths_that_are_none_are_refused(lengths: list[object]) -> None:
    with pytest.raises(ShapeError, match="of at least 0, not"):
        Layout.packed(lengths)


@pytest.mark.parametrize("offsets", [[], [1, 5], [0, 4], [0, 3, 2, 5]])
def test_offsets_that_do_not_rise_to_the_number_of_rows_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ShapeError, match=r"rise from 0 to the number of rows \(5\); got"):
        Layout(np.array(offsets, np.int64), np.arange(5))
