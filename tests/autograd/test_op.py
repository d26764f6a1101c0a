"""@op: what it refuses, what it records, and the dtype that its arguments get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad import GraphError, InputError, ShapeError, Tensor, no_grad, ops
from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import OPS, op
from minigrad.typing import Array


def product_with(backward_of: Callable[[Array], Any]) -> Tensor:
    """Run an operation on (2, 3) and (3,) with the given backward function."""

    @op
    def broken(a: Array, b: Array) -> tuple[Array, Backward]:
        return a * b, lambda dy: backward_of(dy)

    tensors = [Tensor(np.ones(shape), requires_grad=True) for shape in ((2, 3), (3,))]
    return broken(*tensors).sum()


@pytest.mark.parametrize(("shape", "argument", "wanted"), [((3, 2), 0, (2, 3)), ((2,), 1, (3,)), ((4, 4), 1, (3,))])
def test_a_gradient_of_the_wrong_shape_is_named(shape: tuple[int, ...], argument: int, wanted: tuple[int, ...]) -> None:
    def backward(dy: Array) -> list[Array]:
        gradients = [dy, dy]
        gradients[argument] = np.zeros(shape)
        return gradients

    with pytest.raises(ShapeError) as caught:
        product_with(backward).backward()
    message = str(caught.value)
    assert f"backward of broken returned a gradient of shape {shape} for argument {argument}" in message
    assert f"whose shape is {wanted}" in message


def test_a_gradient_of_the_wrong_dtype_is_named() -> None:
    loss = product_with(lambda dy: (dy, dy.astype(np.float32)))
    with pytest.raises(ShapeError, match=r"broken returned .* dtype float32 for argument 1, whose dtype is float64"):
        loss.backward()


@pytest.mark.parametrize("count", [1, 3])
def test_too_few_or_too_many_gradients_are_refused(count: int) -> None:
    with pytest.raises(GraphError, match=f"broken returned {count} gradients for 2 arguments"):
        product_with(lambda dy: (dy,) * count).backward()


def test_none_is_accepted_where_there_is_no_gradient() -> None:
    product_with(lambda dy: (dy, None)).backward()


def test_errors_of_numpy_get_the_name_and_the_shapes() -> None:
    @op
    def joined(a: Array, b: Array) -> tuple[Array, Backward]:
        return np.concatenate([a, b]), lambda dy: (dy, dy)

    with pytest.raises(ShapeError, match=r"joined cannot use arguments of shapes \(2, 3\), \(4,\)"):
        joined(np.zeros((2, 3)), np.zeros(4))


def test_a_node_is_recorded_only_if_an_argument_requires_a_gradient() -> None:
    @op
    def double(x: Array) -> tuple[Array, Backward]:
        return 2 * x, lambda dy: 2 * dy

    x = Tensor([1.0], requires_grad=True)
    assert double(x).node is not None
    assert double(Tensor([1.0])).node is None
    with no_grad():
        assert double(x).node is None


def test_operations_keep_their_names_and_docstrings_with_shapes() -> None:
    for name in ops.__all__:
        function = getattr(ops, name)
        assert OPS[name] is function
        assert function.__name__ == name
        assert "Shapes:" in function.__doc__, f"the docstring of {name} does not give shapes"


# Dtypes.


def test_numbers_and_arrays_of_float64_leave_a_float32_tensor_float32() -> None:
    x = Tensor([1.0], requires_grad=True)
    for number in (0.5, 2, np.float64(0.5), np.ones(1), True):
        assert (x * number).dtype == np.float32, number
    with pytest.raises(InputError, match=r"multiply got tensors of dtype float32 and float64.*astype"):
        x * Tensor(np.ones(1))


def test_integer_tensors_and_python_numbers_leave_a_float32_tensor_float32() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    integers = Tensor([3, 4])
    for y in (
        x * integers,
        ops.concatenate(x, integers),
        ops.where(Tensor([True, False]), x, integers),
        x @ integers,
        x * ((x > 1.5) * 2.0),
        np.power(x, np.float64(2)),
    ):
        assert y.dtype == np.float32
        y.sum().backward()
    assert integers.mean().dtype == np.float32
    assert (integers / 3).dtype == np.float32


def test_integers_and_float16_are_refused_by_kernels() -> None:
    for call in (Tensor([1, 2, 3]).softmax, lambda: ops.gelu(Tensor([1, 2])), Tensor(np.float16([1, 2])).softmax):
        with pytest.raises(InputError, match="float32 or float64"):
            call()


def test_conversion_to_integers_ends_the_gradient() -> None:
    assert not Tensor([1.5, 2.5], requires_grad=True).astype("int64").requires_grad
