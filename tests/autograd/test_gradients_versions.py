"""A saved array that is changed in place before backward() is noticed; every other change is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import GraphError, Tensor, no_grad
from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.typing import Array


def _assign(x: Tensor) -> None:
    x[...] = 5.0


def _subtract(x: Tensor) -> None:
    x.data -= 1.0


def _replace(x: Tensor) -> None:
    x.data = np.zeros(3, np.float32)


@pytest.mark.parametrize("change", [_assign, _subtract, _replace])
def test_changing_a_saved_array_is_noticed(change: Any) -> None:
    x, factor = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([4.0, 5.0, 6.0])
    y = x * factor
    change(factor)
    with pytest.raises(GraphError, match=r"multiply saved an array .* changed in place since \(1 change"):
        y.sum().backward()


@pytest.mark.parametrize("change", [_assign, _subtract])
def test_changing_the_memory_of_a_saved_view_is_noticed(change: Any) -> None:
    x, factor = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([4.0, 5.0, 6.0])
    y = x * factor[:2].reshape(2, 1)
    change(factor)
    with pytest.raises(GraphError, match="changed in place"):
        y.sum().backward()


def test_changing_a_tensor_over_the_memory_of_another_one_is_noticed() -> None:
    w = Tensor(np.ones(3), requires_grad=True)
    y, same = (w * w).sum(), Tensor(w, dtype="float64")
    same[...] = 0.0
    with pytest.raises(GraphError, match="changed in place"):
        y.backward()


def test_changing_a_converted_copy_is_allowed() -> None:
    w = Tensor(np.ones(3, np.float32), requires_grad=True)
    y, copy = (w * w).sum(), Tensor(w, dtype="float64")
    copy[...] = 0.0
    y.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("change", [_assign, _subtract, _replace])
def test_changing_an_array_that_was_not_saved_is_allowed(change: Any) -> None:
    x, term = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([4.0, 5.0, 6.0])
    y = (x + term) * 2.0
    change(term)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_change_after_backward_is_allowed() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        (x * x).sum().backward()
        with no_grad():
            x[...] = x.data - 0.1
        x.zero_grad()


def test_a_tensor_with_a_gradient_cannot_be_changed_while_recording() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GraphError, match="no_grad"):
        x[0] = 3.0


def test_a_result_that_is_the_argument_itself_shares_its_changes() -> None:
    @op
    def reversed_gradient(x: Array) -> tuple[Array, Backward]:
        return x, lambda dy: -dy

    x = Tensor([3.0], requires_grad=True)
    y = reversed_gradient(x)
    loss = (y * y).sum()
    with no_grad():
        x[...] = 10.0
    with pytest.raises(GraphError, match="changed in place since"):
        loss.backward()
