"""Cross-entropy of logits: which targets count, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from minigrad import InputError, ShapeError, Tensor, ops

Array = NDArray[Any]


def test_equal_logits_cost_the_logarithm_of_the_number_of_classes() -> None:
    loss = ops.cross_entropy(Tensor(np.zeros((4, 50))), Tensor([0, 7, 49, 3]))
    assert loss.item() == pytest.approx(math.log(50))
    assert loss.shape == ()


def test_ignored_targets_count_neither_in_the_sum_nor_in_the_average() -> None:
    logits = np.random.default_rng(0).normal(size=(4, 5))
    x, part = Tensor(logits, requires_grad=True), Tensor(logits[[0, 2]], requires_grad=True)
    some, all_of_them = (
        ops.cross_entropy(x, Tensor([1, -100, 3, -100])),
        ops.cross_entropy(part, Tensor([1, 3])),
    )
    assert some.item() == pytest.approx(all_of_them.item(), rel=1e-14)
    some.backward()
    all_of_them.backward()
    assert x.grad is not None
    assert part.grad is not None
    assert (x.grad[[1, 3]] == 0).all()
    np.testing.assert_allclose(x.grad[[0, 2]], part.grad)


def test_nothing_but_ignored_targets_gives_a_loss_and_gradients_of_zero() -> None:
    x = Tensor(np.ones((3, 5)), requires_grad=True)
    loss = ops.cross_entropy(x, Tensor([-100] * 3))
    loss.backward()
    assert loss.item() == 0
    assert x.grad is not None
    assert (x.grad == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_huge_logits_do_not_overflow(dtype: str) -> None:
    x = Tensor(np.array([[1e4, 0, -1e4], [1e30, 0, 0]], dtype), requires_grad=True)
    loss = ops.cross_entropy(x, Tensor([1, 0]))
    assert loss.item() == pytest.approx(5e3)
    loss.backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, [[0.5, -0.5, 0], [0, 0, 0]])


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint16])
def test_targets_of_any_integer_dtype_are_accepted(kind: type) -> None:
    targets = np.array([1, 2], kind)
    assert ops.cross_entropy(Tensor(np.eye(3)[:2]), Tensor(targets)).item() > 0


def test_targets_that_do_not_fit_the_logits_are_refused() -> None:
    logits = Tensor(np.zeros((2, 3)))
    with pytest.raises(ShapeError, match=r"logits \(2, 3\), targets \(3,\)"):
        ops.cross_entropy(logits, Tensor([0, 1, 2]))
    with pytest.raises(InputError, match="integers"):
        ops.cross_entropy(logits, Tensor(np.zeros(2)))
    for bad in (3, -1, -99):
        with pytest.raises(InputError, match=f"{bad}.* for 3 classes"):
            ops.cross_entropy(logits, Tensor([0, bad]))


@pytest.mark.parametrize("name", ["cross_entropy", "linear_losses", "linear_cross_entropy"])
def test_targets_are_those_of_the_call(name: str) -> None:
    def gradient(*, changes: bool) -> Any:
        x, targets = Tensor(np.eye(3), requires_grad=True), np.array([0, 1, -100])
        matrix = () if name == "cross_entropy" else (Tensor(np.eye(3)),)
        loss = getattr(ops, name)(x, *matrix, targets).sum()
        if changes:
            targets[:] = 2
        loss.backward()
        return x.grad

    np.testing.assert_array_equal(gradient(changes=True), gradient(changes=False))


def test_no_targets_may_be_an_empty_list() -> None:
    assert ops.cross_entropy(Tensor(np.zeros((0, 2))), []).item() == 0
