"""The gradient of an embedding: rows looked up more than once add up."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.rowwise.embedding import scatter_add


def test_repeated_rows_add_up_and_others_stay() -> None:
    dy, dw = np.arange(12.0).reshape(4, 3), np.ones((5, 3))
    scatter_add(dy, np.array([2, 0, 2, 2]), dw)
    wanted = np.ones((5, 3))
    wanted[0] += dy[1]
    wanted[2] += dy[[0, 2, 3]].sum(axis=0)
    np.testing.assert_array_equal(dw, wanted)


def test_the_order_of_additions_is_that_of_the_rows() -> None:
    dy = np.array([[2.0**24], [1], [-(2.0**24)], [1]], np.float32)  # the first 1 is lost, the second is not
    dw = np.zeros((1, 1), np.float32)
    scatter_add(dy, np.zeros(4, np.int64), dw)
    assert dw[0, 0] == 1


def test_leading_axes_of_the_gradient_are_rows() -> None:
    dw = np.zeros((2, 3), np.float32)
    scatter_add(np.ones((2, 2, 3), np.float32), np.array([0, 1, 1, 1]), dw)
    np.testing.assert_array_equal(dw[:, 0], [1, 3])
