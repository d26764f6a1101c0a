"""Softmax where the plain quotient of exponentials overflows, and where values are masked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from minigrad import ShapeError, Tensor, ops
from minigrad.ops.softmax import log_softmax_formula, softmax_formula
from tests.op_table import Array

DTYPES = [np.float32, np.float64]


@given(hnp.arrays(np.float64, (3, 5), elements=st.floats(-80, 80)))
def test_the_formulas_are_the_quotient_of_exponentials_and_its_logarithm(x: Array) -> None:
    for axis in (0, 1):
        quotient = np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)
        np.testing.assert_allclose(softmax_formula(x, axis=axis), quotient, rtol=1e-12)
        np.testing.assert_allclose(log_softmax_formula(x, axis=axis), np.log(quotient), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shift", [-1e30, -1e4, 0, 1e4, 1e30])
def test_large_values_of_either_sign_do_not_overflow(dtype: Any, shift: float) -> None:
    x = Tensor(np.array([0, 1, 2], dtype) * dtype(max(abs(shift), 1)) + dtype(shift), requires_grad=True)
    y = ops.softmax(x)
    assert y.data.sum() == pytest.approx(1)
    assert np.isfinite(y.data).all()
    y[2].backward()
    assert x.grad is not None
    assert np.isfinite(x.grad).all()
    z = ops.log_softmax(x)
    assert np.isfinite(z.data).all()
    assert z.data[2] <= 0


@given(hnp.arrays(np.float32, (3, 17), elements=st.floats(-80, 80, width=32)))
def test_the_results_are_probabilities(x: Array) -> None:
    y = ops.softmax(Tensor(x)).data
    assert (y >= 0).all()
    np.testing.assert_allclose(y.sum(axis=-1), 1, rtol=1e-5)
    np.testing.assert_allclose(y, np.exp(ops.log_softmax(Tensor(x)).data.astype(float)), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_values_get_probability_zero(dtype: Any) -> None:
    x = Tensor(np.array([[0, -np.inf, 0], [-np.inf] * 3], dtype), requires_grad=True)
    y = ops.softmax(x)
    np.testing.assert_allclose(y.data, [[0.5, 0, 0.5], [0, 0, 0]])
    np.testing.assert_allclose(softmax_formula(x.data), y.data)
    (y * Tensor(np.array([1, 2, 3], dtype))).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, [[-0.5, 0, 0.5], [0, 0, 0]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [3, 40])
def test_a_row_of_nothing_but_minus_infinity_follows_one_convention(dtype: Any, width: int) -> None:
    x = Tensor(np.full((2, width), -np.inf, dtype), requires_grad=True)
    y = ops.log_softmax(x)
    assert (y.data == -np.inf).all()
    np.testing.assert_array_equal(np.exp(y.data), ops.softmax(x).data)
    np.testing.assert_array_equal(log_softmax_formula(x.data), y.data)
    dy = np.arange(2 * width).reshape(2, width).astype(dtype)
    y.backward(dy)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad, dy)
    assert (ops.logsumexp(x).data == -np.inf).all()
    rows = Tensor(np.concatenate([x.data, np.zeros((1, width), dtype)]), requires_grad=True)
    loss = ops.cross_entropy(rows, [1, -100, 0])
    assert loss.item() == np.inf
    loss.backward()
    wanted = np.zeros((3, width))
    wanted[2] = 1 / width
    wanted[[0, 2], [1, 0]] -= 1
    np.testing.assert_allclose(rows.grad, wanted / 2, rtol=1e-6, atol=1e-7)
    row_of_nan = Tensor(np.array([[-np.inf, np.nan, -np.inf]], dtype))
    for result in (ops.softmax(row_of_nan), ops.log_softmax(row_of_nan), ops.cross_entropy(row_of_nan, [1])):
        assert np.isnan(result.data).any()


def test_an_axis_out_of_range_is_refused() -> None:
    for call in (ops.softmax, ops.log_softmax):
        with pytest.raises(ShapeError, match=r"axis 2 of shape \(2, 3\)"):
            call(Tensor(np.zeros((2, 3))), axis=2)
        with pytest.raises(ShapeError, match="0 axes"):
            call(Tensor(1.0))
