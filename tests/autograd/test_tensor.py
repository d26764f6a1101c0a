"""Tensors: dtypes, backward(), gradients of leaves, memory shared with NumPy, and plain Python values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import GraphError, InputError, ShapeError, Tensor, no_grad, ops


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, np.float32),
        ([1.0, 2.0], np.float32),
        ([1, 2], np.int64),
        ([True], np.bool_),
        (np.zeros(2), np.float64),
        (np.float64(1), np.float64),
        (np.zeros(2, np.float32), np.float32),
        (np.zeros(2, np.int32), np.int32),
    ],
)
def test_python_values_become_float32_or_int64_and_arrays_keep_their_dtype(data: Any, dtype: Any) -> None:
    assert Tensor(data).dtype == dtype
    assert Tensor(Tensor(data)).dtype == dtype
    assert Tensor(data, dtype="float64").dtype == np.float64


def test_data_that_is_not_numeric_is_refused() -> None:
    with pytest.raises(InputError, match="holds numbers"):
        Tensor(["a"])


@pytest.mark.parametrize("data", [[1, 2], [True]])
def test_integers_and_booleans_cannot_require_a_gradient(data: Any) -> None:
    with pytest.raises(InputError, match=r"dtype (int64|bool) cannot have a gradient.*float"):
        Tensor(data, requires_grad=True)


def test_backward_refuses_what_it_cannot_use() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GraphError, match="requires_grad=True"):
        Tensor([1.0]).backward()
    with no_grad(), pytest.raises(GraphError, match="no_grad"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"shape \(2,\) needs a gradient"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"shape \(3,\) for a tensor of shape \(2,\)"):
        (x * 2).backward(np.ones(3))


def test_backward_on_a_leaf_adds_to_its_own_gradient() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert x.grad is None
    x.backward([3.0, 4.0])
    x.backward(Tensor([1.0, 1.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 5.0]
    x.zero_grad()
    assert x.grad.tolist() == [0.0, 0.0]


def test_setting_data_or_gradient_of_another_shape_is_refused() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ShapeError, match=r"\(3,\) cannot replace data of shape \(2,\)"):
        x.data = np.zeros(3)
    with pytest.raises(ShapeError, match="does not fit"):
        x.grad = np.zeros(2)  # float64
    with pytest.raises(GraphError, match="only a leaf"):
        (x * 2).grad = np.zeros(2, np.float32)


# Discarded gradients.


def leaf(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)


def test_a_discarded_gradient_is_overwritten_even_if_it_was_not_finite() -> None:
    w, x = leaf(4, 3), leaf(3)
    for tensor in (w, x):
        tensor.grad = np.full(tensor.shape, np.nan)
        tensor.discard_grad()
    (ops.linear(Tensor(np.ones((2, 3))), w).sum() + (x * 3.0).sum()).backward()
    assert (w.grad == 2).all()
    assert (x.grad == 3).all()


def test_a_discarded_gradient_reads_as_zeros_in_the_same_array() -> None:
    x = leaf(3)
    x.grad = array = np.full(3, 5.0)
    x.discard_grad()
    assert array.tolist() == [5, 5, 5]  # zeros are written only when the gradient is read
    assert x.grad is array
    assert array.tolist() == [0, 0, 0]
    (x * 1.0).sum().backward()
    (x * 1.0).sum().backward()
    assert array.tolist() == [2, 2, 2]


def test_discarding_before_after_and_without_a_gradient() -> None:
    x = leaf(3)
    x.discard_grad()  # there is none yet
    assert x.grad is None
    (x * 2.0).sum().backward()
    x.discard_grad()
    x.grad = np.ones(3)  # a gradient that is set afterwards counts
    assert x.grad.tolist() == [1, 1, 1]
    (x * 2.0).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
    x.discard_grad()
    x.zero_grad()
    assert x.grad.tolist() == [0, 0, 0]
    (x * 2.0).discard_grad()  # not a leaf: nothing to discard
    Tensor([1.0]).discard_grad()
    x.discard_grad()
    x.backward(np.full(3, 4.0))
    assert x.grad.tolist() == [4, 4, 4]


# Values.


def test_detach_shares_memory_and_has_no_gradient() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x.detach()
    assert y.data is x.data
    assert not y.requires_grad
    assert not (y * 2).requires_grad


def test_conversion_to_plain_python_values() -> None:
    x = Tensor([[1.5]])
    assert (x.item(), float(x), int(x), bool(x), x.tolist(), len(x)) == (1.5, 1.5, 1, True, [[1.5]], 1)
    assert isinstance(Tensor(3).item(), int)
    with pytest.raises(ShapeError, match=r"one element; this one has shape \(2,\)"):
        Tensor([1.0, 2.0]).item()


def test_iteration_ends_after_the_last_row() -> None:
    assert [row.tolist() for row in Tensor([[1.0, 2.0], [3.0, 4.0]])] == [[1.0, 2.0], [3.0, 4.0]]
    first, second = Tensor([5, 6])
    assert (first.item(), second.item()) == (5, 6)


def test_repr_gives_values_dtype_and_gradient() -> None:
    assert repr(Tensor([1.0], requires_grad=True)) == "Tensor([1.], dtype=float32, requires_grad=True)"
    assert repr(Tensor(1)) == "Tensor(1, dtype=int64)"


def test_tensors_are_hashable_by_identity() -> None:
    x, y = Tensor([1.0]), Tensor([1.0])
    assert len({x, y, x}) == 2


def test_a_tensor_made_from_another_tensor_shares_its_version() -> None:
    a = Tensor([1.0, 2.0], requires_grad=True)
    h = a * 2
    y = h * h
    Tensor(h)[0] = 100.0
    with pytest.raises(GraphError, match="changed in place"):
        y.sum().backward()


# What would lose a gradient.


def test_assigning_a_tensor_that_requires_a_gradient_is_refused() -> None:
    memory, w = Tensor([0.0, 0.0]), Tensor([1.0, 2.0], requires_grad=True)
    for value in (w[0], w[1] * 2.0, Tensor(3.0, requires_grad=True)):
        with pytest.raises(GraphError, match=r"gradient of the assigned tensor would be lost.*ops\.where.*no_grad"):
            memory[0] = value
    assert memory.tolist() == [0, 0]
    with no_grad():
        memory[0] = w[1]
    memory[1] = w.detach()[0]
    assert memory.tolist() == [2, 1]


def test_an_assignment_that_does_not_fit_is_refused() -> None:
    x = Tensor([0.0, 0.0])
    for index, value in ((5, 1.0), (slice(None), [1.0, 2.0, 3.0])):
        with pytest.raises(ShapeError, match=r"assignment to a tensor of shape \(2,\)"):
            x[index] = value
    assert x.version.count == 0


def test_a_list_of_tensors_that_require_a_gradient_is_refused() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    for data in ([x.sum(), x.sum()], [[x[0]], [x[1]]], (x, x)):
        with pytest.raises(InputError, match=r"ops\.stack"):
            Tensor(data)
    assert Tensor([x.detach().sum(), x.detach()[0]]).tolist() == [3, 1]
    with pytest.raises(InputError, match="cannot be made of this data"):
        Tensor([[1.0], [1.0, 2.0]])


def test_in_place_operators_change_a_leaf_under_no_grad_and_are_refused_while_recording() -> None:
    p, same = Tensor([8.0, 4.0], requires_grad=True), []
    (p * p).sum().backward()
    same.append(p)
    with no_grad():
        p -= 0.25 * p.grad
        p += 1.0
        p *= 3.0
        p /= Tensor([5.0, 1.0])
        p **= 2
        p @= np.eye(2, dtype=np.float32)[::-1].copy()
    assert p is same[0]
    assert p.tolist() == [81, 9]
    assert p.requires_grad
    changes = [("__isub__", 1.0), ("__iadd__", p), ("__imul__", 2.0), ("__itruediv__", 2.0), ("__ipow__", 2.0)]
    changes.append(("__imatmul__", np.eye(2, dtype=np.float32)))
    for name, other in changes:
        with pytest.raises(GraphError, match=r"leaf cannot be changed in place.*no_grad"):
            getattr(p, name)(other)
    with no_grad(), pytest.raises(ShapeError, match=r"assignment to a tensor of shape \(2,\)"):
        p -= np.ones((3, 2))
    with no_grad(), pytest.raises(ShapeError, match=r"shape \(2,\): the result has shape \(\)"):
        p @= p.data.copy()


def test_in_place_operators_on_other_tensors_compute_new_ones() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    h = first = x * 2.0
    h += x
    h *= h
    h.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [18, 36]
    assert first.tolist() == [2, 4]
    with no_grad():  # so that a function gives the same in training and in evaluation
        h = first
        h -= 1.0
    assert first.tolist() == [2, 4]


# Freezing.


def test_a_frozen_leaf_receives_no_gradient_and_can_be_trained_again() -> None:
    x, w = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    w.requires_grad = False
    (x * w).sum().backward()
    assert w.grad is None
    assert not w.has_gradient
    assert x.grad is not None
    assert x.grad.tolist() == [3, 4]
    w.requires_grad = True
    (x * w).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [1, 2]
    with pytest.raises(GraphError, match=r"result of multiply requires a gradient .* detach"):
        (x * w).requires_grad = False
    with pytest.raises(InputError, match="int64 cannot have a gradient"):
        Tensor([1]).requires_grad = True


def test_a_leaf_has_a_gradient_from_its_arrival_until_it_is_set_to_zero() -> None:
    x = leaf(3)
    assert not x.has_gradient
    for forget in (x.zero_grad, x.discard_grad):
        (x * 2.0).sum().backward()
        assert x.has_gradient
        forget()
        assert not x.has_gradient
        assert x.grad.tolist() == [0, 0, 0]
        assert x.has_gradient  # the array that was read may have been written into
    x.grad = None
    assert not x.has_gradient
    assert not (x * 2.0).has_gradient


# Messages.


def test_the_truth_of_several_elements_is_refused() -> None:
    for x in (Tensor([1.0, 2.0]), Tensor([]), Tensor([[True, False]])):
        with pytest.raises(ShapeError, match=r"neither true nor false as a whole; ask \.data\.any\(\) or"):
            bool(x)
    assert not Tensor([0.0])
    for convert in (float, int):
        with pytest.raises(ShapeError, match=rf"{convert.__name__}\(\) needs a tensor with one element"):
            convert(Tensor([1.0, 2.0]))


def test_arrays_of_another_byte_order_are_converted() -> None:
    swapped = np.array([1.0, 3.0], np.dtype(np.float32).newbyteorder())
    x = Tensor(swapped, requires_grad=True)
    assert x.dtype == np.float32
    (x.max() + ops.multiply(swapped, x).sum() + x.softmax().sum()).backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, [1, 4], atol=1e-6)
    assert x.tolist() == [1, 3]


def test_a_gradient_that_is_set_is_an_array() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    for wrong in (Tensor([1.0, 2.0]), [1.0, 2.0]):
        with pytest.raises(InputError, match="a gradient is an array, not a"):
            x.grad = wrong  # type: ignore[assignment]
    assert x.grad is None


def test_the_gradient_of_a_leaf_may_be_passed_on() -> None:
    """While it is, more is added to the array that was given."""
    x = Tensor([1.0, 1.0], requires_grad=True)
    (x * 3).sum().backward()
    (x + x).backward(x.grad)
    assert x.grad is not None
    assert x.grad.tolist() == [9, 9]


def test_a_gradient_that_cannot_be_written_is_copied() -> None:
    x = Tensor(np.ones((3, 2)), requires_grad=True)
    x.grad = np.broadcast_to(1.0, (3, 2))
    ops.embedding(x, [0, 1]).sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2], [1, 1]]
