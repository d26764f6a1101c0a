"""Rearranging elements: repeated indices, and rearrangements that are impossible."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from minigrad import ShapeError, Tensor, ops


def test_gradients_of_a_repeated_index_add_up() -> None:
    x = Tensor(np.zeros(4), requires_grad=True)
    x[np.array([1, 1, 3])].backward(np.array([1.0, 10.0, 100.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [0, 11, 0, 100]


@pytest.mark.parametrize("index", [np.array([1, 1]), [1, 1], ((1, 1),), ((1, 1), slice(None))])
def test_repeated_rows_have_the_sum_of_their_gradients(index: object) -> None:
    x = Tensor(np.zeros((3, 2)), requires_grad=True)
    x[index].sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 0], [2, 2], [0, 0]]


def test_the_gradient_goes_where_the_elements_came_from_whatever_becomes_of_the_index() -> None:
    x, places = Tensor(np.zeros(4), requires_grad=True), np.array([0, 1])
    y = x[places]
    places[...] = 3
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1, 0, 0]
    assert x[[]].shape == (0,)


def test_a_list_or_a_tensor_indexes_as_an_array_does() -> None:
    x = Tensor(np.arange(4.0))
    assert x[[3, 0]].tolist() == x[Tensor([3, 0])].tolist() == [3.0, 0.0]
    assert x[x > 1.5].tolist() == [2.0, 3.0]


def test_impossible_rearrangements_are_refused() -> None:
    x = Tensor(np.zeros((2, 3)))
    with pytest.raises(ShapeError, match=r"\(2, 3\) \(6 elements\) into \(4, 2\)"):
        x.reshape(4, 2)
    for axes in [(0, 0), (0,), (0, 1, 2), (0, 2), (0, -3)]:
        with pytest.raises(ShapeError, match=r"for shape \(2, 3\): name each of its 2 axes once"):
            x.transpose(axes)
    for index in [2, (0, 3), (0, 0, 0), np.array([0, 5])]:
        with pytest.raises(ShapeError, match=r"does not fit shape \(2, 3\)"):
            x[index]


def test_tensors_that_cannot_be_joined_are_refused() -> None:
    x = Tensor(np.zeros((2, 3)))
    for call in (ops.concatenate, ops.stack):
        with pytest.raises(ShapeError, match="at least one"):
            call()
    with pytest.raises(ShapeError, match=r"concatenate cannot use arguments of shapes \(2, 3\), \(2, 4\)"):
        ops.concatenate(x, Tensor(np.zeros((2, 4))))
    with pytest.raises(ShapeError):
        ops.concatenate(x, x, axis=2)
    for first, second in itertools.permutations([(2, 3), (4,), ()], 2):
        with pytest.raises(ShapeError, match="stack"):
            ops.stack(Tensor(np.zeros(first)), Tensor(np.zeros(second)))


def test_an_index_may_be_a_range_which_repeats() -> None:
    x = Tensor(np.arange(2.0), requires_grad=True)
    x[range(-1, 2)].backward(np.array([1.0, 10.0, 100.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [10, 101]


def test_mistakes_of_shapes_and_axes_are_named() -> None:
    x = Tensor(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"into 4: the number of elements"):
        ops.reshape(x, shape=4)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="concatenate needs an axis"):
        ops.concatenate(x, x, axis=None)  # type: ignore[arg-type]
    assert np.transpose(x, None).shape == x.transpose(None).shape == (3, 2)  # type: ignore[call-overload]


def test_a_mask_that_the_caller_changes_after_the_forward_pass_does_not_change_the_gradient() -> None:
    mask, x = np.array([True, True, False]), Tensor([1.0, 2.0, 3.0], requires_grad=True)
    total = ops.where(mask, x, 0.0).sum()
    mask[:] = False
    total.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1, 0]
