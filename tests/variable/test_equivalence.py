"""The class of a tensor and its smallest member."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import GraphError, ShapeError, Tensor, no_grad
from minigrad.variable import equivalent, shrink
from tests.variable.drawn import extensions, groups, tensors


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
