"""Groups of merged rows: within a pass, and with a pending token of an earlier pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import Tensor
from minigrad.typing import Array
from models.wiola.cache import Pending
from models.wiola.merging import find_groups, rows_at


def pending(rows: Array, is_open: list[bool]) -> Pending:
    unused = np.zeros(0)
    return Pending(rows, unused, unused, unused, np.array(is_open))


def test_equal_neighbours_form_groups_of_two() -> None:
    x = np.eye(8, dtype=np.float32)[[0, 0, 1, 2, 2, 2, 3]]
    groups = find_groups(x, np.array([0, 7]), 0.92, None)
    assert list(zip(groups.first, groups.last, strict=True)) == [(0, 1), (2, 2), (3, 4), (5, 5), (6, 6)]
    assert groups.group.tolist() == [0, 0, 1, 2, 2, 3, 4]
    assert groups.offsets.tolist() == [0, 5]
    assert groups.new.all()
    assert groups.ratio == pytest.approx(2 / 7)


def test_sequences_have_groups_of_their_own() -> None:
    groups = find_groups(np.ones((5, 3)), np.array([0, 1, 1, 5]), 0.5, None)
    assert groups.first.tolist() == [0, 1, 3]
    assert groups.offsets.tolist() == [0, 1, 1, 3]


def test_an_open_pending_token_may_merge_with_the_first_new_one() -> None:
    rows, x = np.eye(4)[[0, 1, 2]], np.eye(4)[[0, 3, 1]]
    # Sequences 0 and 1 have new rows; the pending token of sequence 1 is not open, and sequence 2 has no new rows.
    groups = find_groups(x, np.array([0, 2, 3, 3]), 0.9, pending(rows, [True, False, True]))
    assert groups.source.tolist() == [0, 3, 4, 5]  # its index in the pending tokens followed by the new rows
    assert groups.new.tolist() == [False, True, True, True]
    assert list(zip(groups.first, groups.last, strict=True)) == [(0, 1), (2, 2), (3, 3)]
    assert groups.offsets.tolist() == [0, 2, 3, 3]


@pytest.mark.parametrize("shape", [(4, 3), (4, 2, 3), (4,)])
def test_rows_are_selected_by_index_and_repeats_add_their_gradients(shape: Any) -> None:
    x = Tensor(np.arange(float(np.prod(shape))).reshape(shape), requires_grad=True)
    index = np.array([2, 0, 2])
    y = rows_at(x, index)
    np.testing.assert_array_equal(y.data, x.data[index])
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.reshape(4, -1)[:, 0], [1, 0, 2, 0])
