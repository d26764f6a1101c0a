"""Matrix products: vectors, broadcast batches, and inner sizes that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import ShapeError, Tensor, no_grad, ops
from minigrad.ops.matmul import linear_formula, matmul_formula


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((4,), (4,), ()),
        ((4,), (4, 5), (5,)),
        ((3, 4), (4,), (3,)),
        ((2, 3, 4), (4, 5), (2, 3, 5)),
        ((2, 1, 3, 4), (7, 4, 5), (2, 7, 3, 5)),
        ((4,), (7, 4, 5), (7, 5)),
        ((3, 0), (0, 5), (3, 5)),
    ],
)
def test_a_vector_loses_its_axis_and_leading_axes_broadcast(
    a: tuple[int, ...], b: tuple[int, ...], result: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    left, right = (Tensor(rng.normal(size=shape), requires_grad=True) for shape in (a, b))
    y = left @ right
    assert y.shape == result
    np.testing.assert_allclose(y.data, left.data @ right.data, rtol=1e-12)
    y.backward(np.ones(result))
    for tensor in (left, right):
        assert tensor.grad is not None
        assert tensor.grad.shape == tensor.shape


def test_the_formulas_are_numpys_product() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, 3, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(linear_formula(x, weight), x @ weight.T, rtol=1e-12)
    np.testing.assert_allclose(matmul_formula(x, weight.T), x @ weight.T, rtol=1e-12)
    np.testing.assert_allclose(matmul_formula(x, weight[0]), x @ weight[0], rtol=1e-12)


@pytest.mark.parametrize("call", [ops.matmul, ops.linear])
def test_inner_sizes_that_differ_are_named(call: Any) -> None:
    with pytest.raises(ShapeError) as caught:
        call(Tensor(np.zeros((2, 3))), Tensor(np.zeros((4, 5))))
    assert "(2, 3)" in str(caught.value)
    assert "(4, 5)" in str(caught.value)


def test_a_bias_may_be_left_out_and_the_matrix_stored_either_way() -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = (Tensor(rng.normal(size=shape)) for shape in ((2, 3, 4), (5, 4), (5,)))
    y = ops.linear(x, weight, bias)
    np.testing.assert_array_equal(y.data, (ops.linear(x, weight) + bias).data)
    np.testing.assert_array_equal(ops.linear(x, weight, None).data, ops.linear(x, weight).data)
    np.testing.assert_allclose(ops.linear(x, weight.T, bias, inputs_first=True).data, y.data, rtol=1e-12)


@pytest.mark.parametrize(
    ("weight", "bias", "inputs_first", "message"),
    [
        ((4, 5), (4,), False, r"weight of shape \(4, 5\) \(out, in\) to input of shape \(2, 3\)"),
        ((4, 5), (5,), True, r"weight of shape \(4, 5\) \(in, out\) to input of shape \(2, 3\)"),
        ((5, 3), (3,), False, r"one bias for each of 5 outputs, not a bias of shape \(3,\)"),
        ((3, 5), (1,), True, r"one bias for each of 5 outputs, not a bias of shape \(1,\)"),
    ],
)
def test_a_weight_or_a_bias_that_does_not_fit_is_named(
    weight: Any, bias: Any, inputs_first: bool, message: str
) -> None:
    x, w, b = (Tensor(np.zeros(shape)) for shape in ((2, 3), weight, bias))
    with pytest.raises(ShapeError, match=message):
        ops.linear(x, w, b, inputs_first=inputs_first)


def test_a_number_has_no_matrix_product() -> None:
    with pytest.raises(ShapeError, match=r"matmul cannot multiply shapes \(\) and \(3,\)"):
        Tensor(1.0) @ Tensor(np.zeros(3, np.float32))


def test_a_bias_may_change_before_the_gradients_are_computed() -> None:
    """Its values are in no gradient."""
    x, w, b = (Tensor(np.ones(shape), requires_grad=True) for shape in ((2, 3), (4, 3), (4,)))
    y = ops.linear(x, w, b).sum()
    with no_grad():
        b -= 1.0
    y.backward()
    assert b.grad is not None
    assert b.grad.tolist() == [2.0] * 4
