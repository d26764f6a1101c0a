"""Sums and products of zero-extensions: the laws, gradients of the arguments' own shapes, and what broadcasts not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, ShapeError, Tensor, gradcheck
from minigrad.variable import VarTensor, add, equivalent, multiply, promote, subtract
from tests.variable.drawn import extensions, groups

OPERATIONS = [add, subtract, multiply]
every_operation = pytest.mark.parametrize("operation", OPERATIONS)


@every_operation
@given(data=st.data())
def test_the_result_does_not_depend_on_the_member_of_the_class(operation: Any, data: st.DataObject) -> None:
    a, b = data.draw(groups(2))
    extended = operation(data.draw(extensions(a)), data.draw(extensions(b)))
    assert equivalent(operation(a, b), extended)


@pytest.mark.parametrize("operation", [add, multiply])
@given(three=groups(3))
def test_sums_and_products_commute_and_associate(operation: Any, three: list[Tensor]) -> None:
    a, b, c = three
    assert operation(a, b).tolist() == operation(b, a).tolist()
    assert operation(operation(a, b), c).tolist() == operation(a, operation(b, c)).tolist()


@given(three=groups(3))
def test_products_distribute_over_sums(three: list[Tensor]) -> None:
    a, b, c = three
    assert multiply(a, add(b, c)).tolist() == add(multiply(a, b), multiply(a, c)).tolist()


@given(two=groups(2))
def test_nothing_is_the_zero_and_subtraction_is_undone_by_addition(two: list[Tensor]) -> None:
    a, b = two
    nothing = Tensor(np.zeros((0,) * a.ndim))
    assert add(a, nothing).tolist() == a.tolist()
    assert equivalent(multiply(a, nothing), nothing)
    assert equivalent(add(subtract(a, b), b), a)


def test_one_element_is_followed_by_zeros_and_not_repeated() -> None:
    rows, column = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[10.0], [20.0]])
    assert add(rows, column).tolist() == [[11.0, 2.0], [23.0, 4.0]]
    assert (rows + column).tolist() == [[11.0, 12.0], [23.0, 24.0]]


@every_operation
@given(data=st.data(), axes=st.integers(1, 3))
def test_gradients_equal_central_differences(operation: Any, data: st.DataObject, axes: int) -> None:
    shapes = [tuple(data.draw(st.integers(0, 3)) for _ in range(axes)) for _ in range(2)]
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    gradcheck.check(operation, *[rng.normal(size=shape) for shape in shapes])


def test_the_gradient_has_the_argument_s_own_shape() -> None:
    """The common shape is larger than either: nothing of it remains in the gradients."""
    a, b = Tensor(np.ones((1, 3)), requires_grad=True), Tensor(np.ones((2, 1)), requires_grad=True)
    result = add(a, b)
    assert result.shape == (2, 3)
    result.backward(np.arange(6.0).reshape(2, 3))
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.tolist() == [[0.0, 1.0, 2.0]]
    assert b.grad.tolist() == [[0.0], [3.0]]


def test_a_tensor_of_the_common_shape_is_not_copied() -> None:
    a, b = promote(Tensor([1.0, 2.0]), Tensor([3.0]))
    assert b.tolist() == [3.0, 0.0]
    same, _ = promote(a, b)
    assert same is a
    assert promote() == ()


def test_tensors_without_a_sum_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"equally many axes have a common shape; got \(2,\), \(1, 1\)"):
        add(Tensor([1.0, 2.0]), Tensor([[1.0]]))
    with pytest.raises(InputError, match="float32 and float64"):
        add(Tensor([1.0]), Tensor([1.0, 2.0], dtype="float64"))
    with pytest.raises(InputError, match=r"only tensors are promoted, not VarTensor; .* or write x \+ y"):
        add(VarTensor.from_list([[1.0]]), VarTensor.from_list([[1.0]]))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"not list; use Tensor\(\.\.\.\)"):
        add([1.0], Tensor([1.0]))  # type: ignore[arg-type]
