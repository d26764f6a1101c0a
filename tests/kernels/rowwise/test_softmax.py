"""Softmax and its logarithm: any axis, rows in which everything is masked, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.rowwise.softmax import (
    _softmax_rows,
    log_softmax_backward,
    log_softmax_forward,
    softmax_backward,
    softmax_forward,
)
from tests.kernels.rowwise.twins import softmax
from tests.kernels.twin import side_by_side


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis_may_be_the_row(axis: int) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 17))
    wanted = np.moveaxis(softmax(np.moveaxis(x, axis, -1)), -1, axis)
    np.testing.assert_allclose(softmax_forward(x, axis), wanted, rtol=1e-12)
    np.testing.assert_allclose(log_softmax_forward(x, axis), np.log(wanted), rtol=1e-12)


@pytest.mark.parametrize(("dtype", "width"), [(np.float32, 20), (np.float64, 9)])
def test_no_bit_depends_on_how_near_the_result_lies(dtype: type, width: int) -> None:
    rows = np.random.default_rng(0).normal(size=(50, width)).astype(dtype)
    for row in rows:
        near, far = (side_by_side([row[None], np.zeros((1, width), dtype)], gap) for gap in (0, 4096))
        for x, y in (near, far):
            _softmax_rows(x, y, 0, 1)
        assert near[1].tobytes() == far[1].tobytes()


def test_a_row_in_which_everything_is_masked_has_probability_zero() -> None:
    x = np.array([[-np.inf] * 20, [0.0] * 19 + [-np.inf]], np.float32)
    y = softmax_forward(x, -1)
    assert not y[0].any()
    np.testing.assert_allclose(y[1], [1 / 19] * 19 + [0], rtol=1e-6)


def test_large_values_do_not_overflow() -> None:
    x = np.array([[1e4, 1e4, 0]], np.float32)
    np.testing.assert_array_equal(softmax_forward(x, -1), [[0.5, 0.5, 0]])
    np.testing.assert_allclose(log_softmax_forward(x, -1), [[-np.log(2), -np.log(2), -1e4 - np.log(2)]], atol=1e-3)


@pytest.mark.parametrize("shift", [0, 1e3, 1e6])
def test_a_number_added_to_a_row_changes_nothing(shift: float) -> None:
    x = shift + np.array([[0, 1, 2]], np.float32)
    wanted = x.astype(np.float64) - shift
    wanted -= np.log(np.exp(wanted).sum())
    np.testing.assert_allclose(log_softmax_forward(x.astype(np.float32), -1), wanted, rtol=1e-6)


def test_the_gradient_along_a_row_adds_up_to_zero() -> None:
    rng = np.random.default_rng(1)
    x, dy = rng.normal(size=(5, 33)), rng.normal(size=(5, 33))
    for forward, backward in ((softmax_forward, softmax_backward), (log_softmax_forward, log_softmax_backward)):
        np.testing.assert_allclose(backward(dy, forward(x, -1), -1).sum(axis=1), 0, atol=1e-12)
