"""What @op refuses: a backward that does not keep the contract is named, with both shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad import GraphError, ShapeError, Tensor, no_grad, ops
from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import OPS, op
from minigrad.typing import Array


def product_with(backward_of: Callable[[Array], Any]) -> Tensor:
    """Run an operation on (2, 3) and (3,) whose backward returns whatever it is told to."""

    @op
    def broken(a: Array, b: Array) -> tuple[Array, Backward]:
        return a * b, lambda dy: backward_of(dy)

    tensors = [Tensor(np.ones(shape), requires_grad=True) for shape in ((2, 3), (3,))]
    return broken(*tensors).sum()


@pytest.mark.parametrize(("shape", "argument", "wanted"), [((3, 2), 0, (2, 3)), ((2,), 1, (3,)), ((4, 4), 1, (3,))])
def test_a_gradient_of_the_wrong_shape(shape: tuple[int, ...], argument: int, wanted: tuple[int, ...]) -> None:
    def backward(dy: Array) -> list[Array]:
        gradients = [dy, dy]
        gradients[argument] = np.zeros(shape)
        return gradients

    with pytest.raises(ShapeError) as caught:
        product_with(backward).backward()
    message = str(caught.value)
    assert f"backward of broken returned a gradient of shape {shape} for argument {argument}" in message
    assert f"whose shape is {wanted}" in message


def test_a_gradient_of_the_wrong_dtype() -> None:
    loss = product_with(lambda dy: (dy, dy.astype(np.float32)))
    with pytest.raises(ShapeError, match=r"broken returned .* dtype float32 for argument 1, whose dtype is float64"):
        loss.backward()


@pytest.mark.parametrize("count", [1, 3])
def test_too_few_or_too_many_gradients(count: int) -> None:
    with pytest.raises(GraphError, match=f"broken returned {count} gradients for 2 arguments"):
        product_with(lambda dy: (dy,) * count).backward()


def test_none_where_there_is_no_gradient() -> None:
    product_with(lambda dy: (dy, None)).backward()


def test_errors_of_numpy_get_the_name_and_the_shapes() -> None:
    @op
    def picky(a: Array, b: Array) -> tuple[Array, Backward]:
        return np.concatenate([a, b]), lambda dy: (dy, dy)

    with pytest.raises(ShapeError, match=r"picky cannot use arguments of shapes \(2, 3\), \(4,\)"):
        picky(np.zeros((2, 3)), np.zeros(4))


def test_nothing_is_recorded_without_need() -> None:
    @op
    def double(x: Array) -> tuple[Array, Backward]:
        return 2 * x, lambda dy: 2 * dy

    x = Tensor([1.0], requires_grad=True)
    assert double(x).node is not None
    assert double(Tensor([1.0])).node is None
    with no_grad():
        assert double(x).node is None


def test_names_and_docstrings_are_kept() -> None:
    for name in ops.__all__:
        function = getattr(ops, name)
        assert OPS[name] is function
        assert function.__name__ == name
        assert "Shapes:" in function.__doc__, f"the docstring of {name} does not give shapes"
