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
