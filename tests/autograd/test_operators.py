"""Operators and methods of tensors run the operations of the same names, also mixed with NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor, gradcheck, ops
from minigrad.autograd.operators import unwrap


def test_operators_run_the_operations() -> None:
    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    x, y = Tensor(a), Tensor(b)
    results = {
        "add": (x + y, a + b),
        "radd": (1 + x, 1 + a),
        "sub": (x - y, a - b),
        "rsub": (1 - x, 1 - a),
        "mul": (x * y, a * b),
        "rmul": (2 * x, 2 * a),
        "div": (x / y, a / b),
        "rdiv": (1 / x, 1 / a),
        "matmul": (x @ y, a @ b),
        "rmatmul": (np.eye(2) @ x, a),
        "neg": (-x, -a),
        "pow": (x**2, a**2),
        "less": (x < 2, a < 2),
        "at most": (x <= 1, a <= 1),
        "greater": (x > 1, a > 1),
        "at least": (x >= 2, a >= 2),
        "equal": (x == 2, a == 2),
        "not equal": (x != y, a != b),
        "mean": (x.mean(), a.mean()),
        "power of a number": (2**x, 2**a),
        "abs": (abs(-x), a),
        "min": (x.min(), a.min()),
        "var": (x.var(), a.var()),
        "T": (Tensor(np.eye(2, 3)).T, np.eye(2, 3).T),
    }
    for name, (got, wanted) in results.items():
        np.testing.assert_array_equal(got.data, wanted, err_msg=name)


@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "tanh", "sigmoid", "relu", "softmax", "log_softmax", "max", "min", "sum"]
)
def test_methods_run_the_operation_of_their_name(name: str) -> None:
    x = Tensor(np.array([[0.5, 2.0], [1.0, 3.0]]))
    np.testing.assert_array_equal(getattr(x, name)().data, getattr(ops, name)(x).data)


def test_shapes_and_axes_may_be_given_one_by_one_or_as_a_tuple() -> None:
    x = Tensor(np.arange(6.0).reshape(2, 3))
    assert x.reshape(3, 2).tolist() == x.reshape((3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert x.transpose(1, 0).tolist() == x.transpose((1, 0)).tolist() == x.transpose().tolist() == x.T.tolist()


def test_an_array_and_a_tensor_give_a_tensor_with_a_gradient() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    array = np.array([3.0, 4.0], np.float32)
    for result in (array + x, array * x, array - x, array / x, np.exp(x), np.add(array, x), -np.tanh(x)):
        assert isinstance(result, Tensor)
        assert result.requires_grad
        assert result.dtype == np.float32
    (array * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 4.0]
    assert isinstance(array < x, Tensor)


def test_numpy_functions_without_a_gradient_are_refused() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(InputError, match=r"np\.sin, called like this, does not compute gradients.*detach"):
        np.sin(x)
    with pytest.raises(InputError, match=r"np\.add, called like this, does not compute gradients"):
        np.add.reduce(x)
    with pytest.raises(InputError, match=r"requires a gradient.*detach\(\)\.numpy\(\)"):
        np.asarray(x)
    with pytest.raises(InputError, match=r"np\.add, called like this, does not compute gradients"):
        np.add(x, 1, out=np.zeros(2, np.float32))
    with pytest.raises(InputError, match=r"np\.sin, called like this, does not compute gradients"):
        np.sin(np.ones(2, np.float32), out=x.detach())
    assert np.asarray(x.detach()) is not None
    assert np.asarray(Tensor([1.0]), dtype="float64").dtype == np.float64


def test_numpy_functions_get_the_array_where_no_gradient_is_lost() -> None:
    x = Tensor([1.0, np.inf], requires_grad=True)
    assert np.isfinite(x).tolist() == [True, False]
    np.testing.assert_array_equal(np.sin(Tensor([1.0])), np.sin(np.ones(1, np.float32)))
    total = np.ones(2)
    total += x.detach()
    assert total.tolist() == [2.0, np.inf]
    assert np.maximum(x, 3.0).requires_grad


def test_functions_of_numpy_run_the_operations() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    results = {
        "sum": (np.sum(x), [11.0]),
        "sum axis": (np.sum(x, 0), [4.0, 7.0]),
        "mean": (np.mean(x, axis=1, keepdims=True), [[1.5], [4.0]]),
        "max": (np.max(x), [5.0]),
        "amax": (np.amax(x, axis=1), [2.0, 5.0]),
        "reshape": (np.reshape(x, (4, 1)), [[1.0], [2.0], [3.0], [5.0]]),
        "transpose": (np.transpose(x), [[1.0, 3.0], [2.0, 5.0]]),
        "concatenate": (np.concatenate([x, x], 1), [[1.0, 2.0, 1.0, 2.0], [3.0, 5.0, 3.0, 5.0]]),
        "stack": (np.stack([x[0], x[1]], axis=1), [[1.0, 3.0], [2.0, 5.0]]),
        "where": (np.where(x > 2.0, x, 0.0), [[0.0, 0.0], [3.0, 5.0]]),
    }
    for name, (got, wanted) in results.items():
        assert isinstance(got, Tensor), name
        assert got.requires_grad, name
        np.testing.assert_array_equal(got.data, np.array(wanted).reshape(got.shape), err_msg=name)
    np.sum(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1, 1], [1, 1]]


def test_other_functions_of_numpy_get_the_array_unless_a_gradient_would_be_lost() -> None:
    x = Tensor([3.0, 1.0, 2.0], requires_grad=True)
    for call in (
        lambda: np.std(x),
        lambda: np.sum(x, dtype=float),
        lambda: np.split(x, 3),
        lambda: np.dot(np.ones(3), x),
        lambda: np.copyto(np.zeros(3), x),
        lambda: np.linalg.norm(x),
        lambda: np.sum(a=x),
        lambda: np.stack(arrays=[x, x]),
        lambda: np.transpose(x, axes=(0,)),
    ):
        with pytest.raises(
            InputError, match=r"called like this, does not .*method of the tensor.*minigrad\.ops.*detach"
        ):
            call()
    assert np.argsort(x).tolist() == [1, 2, 0]
    assert np.shape(x) == (3,)
    assert np.allclose(x, [3.0, 1.0, 2.0])
    assert np.zeros_like(x).tolist() == [0, 0, 0]
    assert np.std(x.detach()) == pytest.approx(np.std([3, 1, 2]))
    assert np.sum(a=x.detach()) == 6
    assert [part.tolist() for part in np.split(x.detach(), 3)] == [[3], [1], [2]]


def test_what_is_composed_of_operations_has_its_gradient() -> None:
    x = np.array([[0.5, 2.0, -1.0], [1.5, 3.0, 0.2]])
    gradcheck.check(lambda t: 2**t + t.abs() + t.var(axis=1, keepdims=True), x)
    gradcheck.check(lambda t: np.min(t, axis=0) + np.var(t, 0) + np.abs(t)[0] + np.power(2.0, t)[1], x)
    np.testing.assert_allclose(Tensor(x).var(0).data, x.var(0))
    np.testing.assert_allclose(np.amin(Tensor(x), 1).data, x.min(1))


def test_axes_are_exchanged() -> None:
    x = Tensor(np.arange(24.0).reshape(2, 3, 4), requires_grad=True)
    np.testing.assert_array_equal(x.swapaxes(0, -1).data, x.data.swapaxes(0, -1))
    assert np.swapaxes(x, -1, -2).requires_grad
    with pytest.raises(ShapeError, match=r"swapaxes got axes 0 and 3 for shape \(2, 3, 4\)"):
        x.swapaxes(0, 3)


def test_the_index_of_the_largest_has_no_gradient() -> None:
    x = Tensor([[1.0, 5.0], [7.0, 3.0]], requires_grad=True)
    assert x.argmax().item() == 2
    assert x.argmax(axis=-1).tolist() == [1, 0]
    assert not x.argmax(1, keepdims=True).requires_grad
    assert (x.argmax(1) == [1, 1]).mean().item() == 0.5


@pytest.mark.parametrize("base", [0, -2.0, np.ones(2)])
def test_a_power_of_a_tensor_needs_a_base_above_zero(base: Any) -> None:
    with pytest.raises(InputError, match="needs a base above 0"):
        base ** Tensor([1.0, 2.0])


def test_unwrap_reaches_into_tuples_and_leaves_other_values_unchanged() -> None:
    x = Tensor([1, 2])
    array, (inner, number) = unwrap(x), unwrap((x, 3))
    assert array is x.data
    assert inner is x.data
    assert number == 3
    assert unwrap("text") == "text"


def test_numpy_does_not_write_into_a_tensor() -> None:
    for requires_grad in (True, False):
        x = Tensor(np.zeros((2, 2)), requires_grad=requires_grad)
        for write in (
            lambda x: np.add.at(x, [0], 5.0),
            lambda x: np.copyto(x, 1.0),
            lambda x: np.fill_diagonal(x, 5.0),
            lambda x: np.put(x, [0], [5.0]),
            lambda x: np.copyto(dst=x, src=1.0),
            lambda x: np.put_along_axis(arr=x, indices=np.array([[0]]), values=5.0, axis=0),
            lambda x: np.sum(np.ones((2, 2)), axis=0, out=x[0]),
        ):
            with pytest.raises(InputError, match=r"write tensor|does not compute"):
                write(x)
        assert not x.data.any()
    array = np.zeros(2)
    np.add.at(array, [0], Tensor([5.0]))
    assert array.tolist() == [5, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.sum(x, 0, np.float64),
        lambda x: np.max(x, 0, None, True),
        lambda x: np.reshape(x, (3, 2), "F"),
        lambda x: np.concatenate((x, x), 0, None),
    ],
)
def test_arguments_by_position_that_an_operation_lacks_are_refused(call: Any) -> None:
    with pytest.raises(InputError, match="called like this, does not compute gradients"):
        call(Tensor(np.ones((2, 3)), requires_grad=True))
    assert np.sum(Tensor(np.ones((2, 3), np.float32)), 0, np.float64).dtype == np.float64
    assert np.swapaxes(Tensor(np.ones((2, 3)), requires_grad=True), 0, 1).shape == (3, 2)
