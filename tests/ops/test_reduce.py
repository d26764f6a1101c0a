"""Reductions: large values, equal maxima, empty axes and axes that do not exist."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import ShapeError, Tensor, ops


def test_logsumexp_does_not_overflow() -> None:
    x = Tensor(np.array([[1e4, 1e4], [-1e4, -1e4], [-np.inf, 0], [-np.inf, -np.inf]]), requires_grad=True)
    y = ops.logsumexp(x)
    np.testing.assert_allclose(y.data, [1e4 + np.log(2), -1e4 + np.log(2), 0, -np.inf])
    y.backward(np.ones(4))
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, [[0.5, 0.5], [0.5, 0.5], [0, 1], [0, 0]])


def test_infinite_elements_take_the_gradient_of_logsumexp() -> None:
    inf = np.inf
    for dtype in (np.float32, np.float64):
        rows = np.array([[inf, 1, 2], [inf, 3, inf], [inf, -inf, 0], [-inf, 1, -inf]], dtype)
        x = Tensor(rows, requires_grad=True)
        y = ops.logsumexp(x)
        assert y.tolist() == [inf, inf, inf, 1]
        y.backward(np.array([1, 2, 3, 4]))
        assert x.grad is not None
        assert x.grad.tolist() == [[1, 0, 0], [1, 0, 1], [3, 0, 0], [0, 4, 0]]


def test_the_largest_and_the_smallest_of_any_numbers_are_exact() -> None:
    for dtype in ("int8", "uint64", "bool", "float16", ">f4", "<f8", ">i4", "longdouble"):
        x = np.array([[1, 0], [0, 1]], dtype)
        assert ops.max(Tensor(x)).item() == 1
        assert ops.max(x, axis=0).tolist() == [1, 1]
        smallest = Tensor(x).min()
        assert (smallest.item(), smallest.dtype) == (0, ops.max(Tensor(x)).dtype)
    assert ops.max(Tensor([2**53 + 1, 3])).item() == 2**53 + 1
    assert Tensor([-(2**63), 0]).min().item() == -(2**63)


@pytest.mark.parametrize("name", ["max", "min"])
def test_equal_extremes_share_the_gradient(name: str) -> None:
    x = Tensor([2.0, 1.0, 3.0, 3.0, 1.0], requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad is not None
    assert x.grad.tolist() == {"max": [0, 0, 0.5, 0.5, 0], "min": [0, 0.5, 0, 0, 0.5]}[name]


@pytest.mark.parametrize("name", ["mean", "max", "min", "logsumexp"])
def test_a_reduction_of_no_elements_is_refused(name: str) -> None:
    with pytest.raises(ShapeError, match=rf"{name} of no elements: shape \(2, 0\)"):
        getattr(ops, name)(Tensor(np.zeros((2, 0))), axis=1)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "logsumexp"])
@pytest.mark.parametrize("axis", [2, -3, (0, 2)])
def test_an_axis_that_does_not_exist_is_refused(name: str, axis: int) -> None:
    with pytest.raises(ShapeError, match=r"of shape \(2, 3\), which has 2 axes"):
        getattr(ops, name)(Tensor(np.zeros((2, 3))), axis=axis)


def test_an_axis_named_twice_is_refused() -> None:
    with pytest.raises(ShapeError):
        ops.sum(Tensor(np.zeros((2, 3))), axis=(0, -2))


def test_an_axis_may_be_a_number_of_numpy() -> None:
    assert Tensor([[1.0, 2.0]]).sum(axis=np.int64(1)).tolist() == [3.0]
