"""Zero-extension: sums and products of classes, their gradients, equivalence, and the smallest member of a class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import GraphError, InputError, ShapeError, Tensor, gradcheck, no_grad
from models.vsla.variable import (
    VarTensor,
    add,
    equivalent,
    multiply,
    promote,
    shrink,
    subtract,
    zero_extend,
)
from tests.models.vsla.variable.drawn import extensions, groups, tensors

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


@pytest.mark.parametrize("shape", [(1, 2), (2,), (2, 2, 1)])
def test_an_axis_only_becomes_longer(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"cannot extend shape \(2, 2\) to \("):
        zero_extend(Tensor([[1, 2], [3, 4]]), shape=shape)


@given(data=st.data())
def test_equivalence_is_an_equivalence_relation(data: st.DataObject) -> None:
    a, b = data.draw(groups(2))
    c = data.draw(extensions(a))
    assert equivalent(a, a)
    assert equivalent(a, b) == equivalent(b, a)
    assert equivalent(a, c)
    assert equivalent(b, c) == equivalent(a, b)


@given(data=st.data(), axes=st.integers(0, 3))
def test_the_smallest_member_is_one_for_a_class(data: st.DataObject, axes: int) -> None:
    x = data.draw(tensors(axes)) if axes else Tensor(np.array(2.0))
    smallest = shrink(x)
    assert equivalent(x, smallest)
    assert shrink(smallest).shape == smallest.shape
    assert shrink(data.draw(extensions(x))).tolist() == smallest.tolist()
    for axis in range(axes):
        last = np.take(smallest.data, [-1], axis) if smallest.shape[axis] else np.ones(1)
        assert last.any()


def test_shrinking_copies_nothing() -> None:
    x = Tensor([[1.0, 0.0], [0.0, 0.0]])
    assert shrink(x).shape == (1, 1)
    assert np.shares_memory(shrink(x).data, x.data)


def test_zeros_shrink_to_nothing_and_nan_is_not_zero() -> None:
    assert shrink(Tensor(np.zeros((2, 3)))).shape == (0, 0)
    assert shrink(Tensor([1.0, np.nan, -0.0])).shape == (2,)
    assert not equivalent(Tensor([np.nan]), Tensor([np.nan]))


def test_nothing_shrinks_while_a_gradient_is_recorded() -> None:
    weight = Tensor([1.0, 0.0], requires_grad=True)
    with pytest.raises(GraphError, match=r"shape \(2,\) that requires a gradient: a weight at the end .*x\.detach\(\)"):
        shrink(weight)
    with no_grad():
        assert shrink(weight).shape == (1,)
    assert shrink(weight.detach()).shape == (1,)


def test_tensors_with_a_gradient_can_be_compared() -> None:
    assert equivalent(Tensor([1.0], requires_grad=True), Tensor([1.0, 0.0]))


def test_tensors_of_different_ranks_are_not_compared() -> None:
    with pytest.raises(ShapeError, match=r"got \(1,\), \(1, 1\)"):
        equivalent(Tensor([1.0]), Tensor([[1.0]]))
