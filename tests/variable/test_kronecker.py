"""The outer and the Kronecker product: which laws hold, and the two claimed ones that do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import ShapeError, Tensor, gradcheck, ops
from minigrad.variable import add, equivalent, kronecker
from tests.variable.drawn import extensions, groups, tensors


def vector(*numbers: float) -> Tensor:
    return Tensor(np.array(numbers, float))


@given(two=groups(2))
def test_it_is_the_product_of_numpy(two: list[Tensor]) -> None:
    a, b = two
    np.testing.assert_array_equal(kronecker(a, b).data, np.kron(a.data, b.data))


@given(three=groups(3))
def test_it_associates_and_one_is_its_identity(three: list[Tensor]) -> None:
    a, b, c = three
    one = Tensor(np.ones((1,) * a.ndim))
    assert kronecker(kronecker(a, b), c).tolist() == kronecker(a, kronecker(b, c)).tolist()
    assert kronecker(a, one).tolist() == kronecker(one, a).tolist() == a.tolist()


@given(data=st.data())
def test_the_first_factor_may_be_any_member_of_its_class(data: st.DataObject) -> None:
    a, b = data.draw(groups(2))
    assert equivalent(kronecker(data.draw(extensions(a)), b), kronecker(a, b))


@given(three=groups(3))
def test_it_distributes_over_a_sum_on_the_left(three: list[Tensor]) -> None:
    a, b, c = three
    assert equivalent(kronecker(add(a, b), c), add(kronecker(a, c), kronecker(b, c)))


@given(data=st.data())
def test_it_distributes_over_a_sum_of_equal_lengths_on_the_right(data: st.DataObject) -> None:
    a, b = data.draw(groups(2))
    c = data.draw(tensors(shape=b.shape))
    assert kronecker(a, add(b, c)).tolist() == add(kronecker(a, b), kronecker(a, c)).tolist()


def test_claim_one_fails_the_second_factor_may_not_be_any_member_of_its_class() -> None:
    a, b, extended = vector(1, 2), vector(1), vector(1, 0)
    assert equivalent(b, extended)
    assert kronecker(a, b).tolist() == [1, 2]
    assert kronecker(a, extended).tolist() == [1, 0, 2, 0]
    assert not equivalent(kronecker(a, b), kronecker(a, extended))


def test_claim_two_fails_it_does_not_distribute_over_every_sum_on_the_right() -> None:
    a, b, c = vector(1, 1), vector(1), vector(0, 1)
    assert kronecker(a, add(b, c)).tolist() == [1, 1, 1, 1]
    assert add(kronecker(a, b), kronecker(a, c)).tolist() == [1, 2, 0, 1]


def test_it_can_commute_without_a_scalar_and_does_not_in_general() -> None:
    a, b = vector(1, 2), vector(1, 3)
    assert kronecker(a, b).tolist() != kronecker(b, a).tolist()
    power = kronecker(a, a)
    assert kronecker(a, power).tolist() == kronecker(power, a).tolist()  # of different lengths, neither a scalar


@given(data=st.data())
def test_the_outer_product_keeps_both_laws(data: st.DataObject) -> None:
    a, b, c = data.draw(groups(3))
    outer = ops.outer(a, b)
    assert equivalent(ops.outer(data.draw(extensions(a)), data.draw(extensions(b))), outer)
    assert equivalent(ops.outer(a, add(b, c)), add(outer, ops.outer(a, c)))
    assert equivalent(ops.outer(add(a, c), b), add(outer, ops.outer(c, b)))


def test_a_flat_outer_product_of_vectors_is_the_kronecker_product() -> None:
    a, b = vector(1, 2), vector(3, 4, 5)
    assert kronecker(a, b).tolist() == ops.outer(a, b).reshape(-1).tolist()


@given(sizes=st.lists(st.integers(0, 3), min_size=4, max_size=4), seed=st.integers(0, 1000))
def test_gradients_equal_central_differences(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    gradcheck.check(kronecker, rng.normal(size=sizes[:1]), rng.normal(size=sizes[1:2]))
    gradcheck.check(kronecker, rng.normal(size=sizes[:2]), rng.normal(size=sizes[2:]))


def test_the_gradients_are_those_of_the_flat_matrix() -> None:
    """With G the gradient as a matrix (m, n): da = G b and db = a G."""
    a, b = Tensor(np.array([1.0, 2.0]), requires_grad=True), Tensor(np.array([3.0, 4.0, 5.0]), requires_grad=True)
    gradient = np.arange(6.0)
    kronecker(a, b).backward(gradient)
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.tolist() == (gradient.reshape(2, 3) @ b.data).tolist()
    assert b.grad.tolist() == (a.data @ gradient.reshape(2, 3)).tolist()


def test_factors_of_different_ranks_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"kronecker needs tensors with equally many axes; got shapes \(1,\) and"):
        kronecker(vector(1), Tensor([[1.0]]))
