"""Embedding: the gradients of a row that is looked up several times add up; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor, ops


def test_gradients_of_repeated_rows_add_up() -> None:
    weight = Tensor(np.zeros((3, 2)), requires_grad=True)
    ops.embedding(weight, Tensor([[2, 0], [2, 2]])).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[1, 1], [0, 0], [3, 3]]


def test_changing_the_result_leaves_the_table_unchanged() -> None:
    weight = Tensor(np.zeros((3, 2)))
    for ids in ([0, 1], 1):
        rows = ops.embedding(weight, Tensor(ids))
        rows[...] = 5.0
        assert (weight.data == 0).all() or rows.version is weight.version


def test_ids_and_tables_that_cannot_be_used_are_refused() -> None:
    table = Tensor(np.zeros((3, 2)))
    for bad in (3, -1):
        with pytest.raises(InputError, match=rf"ids from .*{bad}.* rows 0 to 2"):
            ops.embedding(table, Tensor([0, bad]))
    with pytest.raises(InputError, match="integers as ids, not float64"):
        ops.embedding(table, Tensor(np.zeros(1)))
    with pytest.raises(ShapeError, match=r"\(V, C\), not \(3,\)"):
        ops.embedding(Tensor(np.zeros(3)), Tensor([0]))


def test_no_ids_may_be_an_empty_list() -> None:
    assert ops.embedding(Tensor(np.ones((3, 2))), []).shape == (0, 2)
