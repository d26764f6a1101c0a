"""@op: what it refuses, what it records, and the dtype that its arguments get."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad import GraphError, InputError, ShapeError, Tensor, no_grad, ops
from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import gradients_wanted, op
from minigrad.autograd.operators import OPS
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


def test_errors_inside_an_operation_are_not_taken_for_bad_input_and_get_its_name_and_the_shapes() -> None:
    @op
    def joined(a: Array, b: Array) -> tuple[Array, Backward]:
        return np.concatenate([a, b]), lambda dy: (dy, dy)

    with pytest.raises(ValueError, match="dimension") as caught:
        joined(np.zeros((2, 3)), np.zeros(4))
    assert not isinstance(caught.value, InputError)
    (note,) = caught.value.__notes__
    assert "in the operation joined, called with arguments of shapes (2, 3), (4,)" in note


def test_an_operation_that_forgets_its_backward_is_named() -> None:
    def forgetful(x: Array) -> Array:
        return x * 2

    without_backward: Any = op(forgetful)  # type: ignore[arg-type]
    for shape in [(2, 2), (2,), ()]:  # two rows, or two elements, could be taken for a result and a function
        with pytest.raises(TypeError, match=r"forgetful returned (ndarray|float64).*return y, backward"):
            without_backward(np.ones(shape))


def test_an_operation_knows_which_of_its_arguments_need_a_gradient() -> None:
    seen = []

    @op
    def three(a: Array, b: Array, c: Array) -> tuple[Array, Backward]:
        seen.append(gradients_wanted())
        return a + b + c, lambda dy: (dy, dy, dy)

    x, w = Tensor([1.0]), Tensor([2.0], requires_grad=True)
    three(x, w, 3.0)
    three(w * 2, x, w)
    with no_grad():
        three(w, w, w)
    assert seen == [(False, True, False), (True, False, True), (False, False, False)]


def test_the_last_arguments_may_be_left_out_if_their_default_is_none() -> None:
    seen = []

    @op
    def scaled(x: Array, scale: Array | None = None, shift: Array | None = None) -> tuple[Array, Backward]:
        seen.append(gradients_wanted())
        y = x if scale is None else x * scale
        return y if shift is None else y + shift, lambda dy: (dy, None, dy if shift is not None else None)

    x = Tensor([1.0], requires_grad=True)
    for given in ((x,), (x, None), (x, None, None), (x, 1.0), (x, x)):
        x.zero_grad()
        scaled(*given).backward()
        assert x.grad == [1.0]
    assert seen == [(True, False, False)] * 4 + [(True, True, False)]
    with pytest.raises(InputError, match="scaled got scale of type NoneType"):
        scaled(x, None, 1.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        scaled()


def test_results_of_other_dtypes_are_tensors_of_numbers_in_this_machines_byte_order() -> None:
    @op(integer_dtype="any")
    def text(x: Array) -> tuple[Array, Backward]:
        return x.astype(str), lambda dy: dy

    swapped = ops.astype(Tensor([1.0, 2.0]), dtype=">f4")
    assert swapped.dtype.isnative
    assert swapped.tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match="a Tensor holds numbers"):
        text(Tensor([1.0]))


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
        assert OPS.get(name, function) is function  # some functions are composed of operations
        assert function.__name__ == name
        assert "Shapes:" in function.__doc__, f"the docstring of {name} does not give shapes"


def test_the_name_of_a_built_in_operation_is_refused() -> None:
    def tanh(x: Array) -> tuple[Array, Backward]:
        return x, lambda dy: dy

    with pytest.raises(InputError, match=r"tanh is in minigrad\.ops\.elementwise already.*own_tanh"):
        op(tanh)
    assert OPS["tanh"] is ops.tanh


def test_an_operation_of_ones_own_may_be_defined_again() -> None:
    for factor in (2.0, 3.0):

        @op
        def times(x: Array) -> tuple[Array, Backward]:
            return factor * x, lambda dy: factor * dy  # noqa: B023

        assert times(Tensor([1.0])).tolist() == [factor]


def test_the_graph_of_the_last_operation_is_freed_with_its_result() -> None:
    x = Tensor(np.ones(3), requires_grad=True)
    hidden = x.exp()
    array = weakref.ref(hidden.data)
    total = hidden.sum()
    del hidden, total
    gc.collect()
    assert array() is None


def test_an_operation_may_be_called_leaf() -> None:
    @op
    def leaf(x):
        return 2 * x, lambda dy: 2 * dy

    x = Tensor(np.ones(3), requires_grad=True)
    y = leaf(x)
    y.sum().backward()
    assert not y.is_leaf
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2, 2]
