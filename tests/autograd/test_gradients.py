"""Deferred gradients: when and where they are written; and the arrays that a backward function saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad import ShapeError, Tensor, detect_anomaly, ops
from minigrad.autograd.anomaly import AnomalyError
from minigrad.autograd.gradients import Deferred, saved_arrays
from minigrad.autograd.op import op
from minigrad.typing import Array


def leaf(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)


def deferring(shape: tuple[int, ...], value: float = 1.0, dtype: Any = np.float64) -> tuple[Callable[..., Tensor], Any]:
    """Return an operation with a deferred gradient that is `value` everywhere, and a list of the calls of `write`."""
    written: list[tuple[Array, bool]] = []

    @op
    def deferred_op(x: Array) -> tuple[Array, Any]:
        def write(out: Array, add: bool) -> None:
            written.append((out, add))
            out[...] = out + value if add else value

        return np.zeros(3), lambda dy: Deferred(shape, np.dtype(dtype), write)

    return deferred_op, written


def test_the_first_gradient_is_written_and_later_ones_are_added_in_the_same_array() -> None:
    flat = np.full(10, 7.0)
    x = leaf(2, 3)
    x.grad = flat[2:8].reshape(2, 3)
    deferred_op, written = deferring((2, 3))
    x.discard_grad()
    (deferred_op(x) + deferred_op(x)).sum().backward()
    deferred_op(x).sum().backward()
    assert [add for _, add in written] == [False, True, True]
    assert all(np.shares_memory(out, flat) for out, _ in written)
    assert flat.tolist() == [7, 7, 3, 3, 3, 3, 3, 3, 7, 7]
    assert x.grad is not None
    assert x.grad.base is flat


def test_the_gradient_of_a_constant_is_never_written() -> None:
    deferred_op, written = deferring((2, 3))
    constant, x = Tensor(np.zeros((2, 3))), leaf(3)
    (deferred_op(constant) + x).sum().backward()
    assert not deferred_op(constant).requires_grad
    w = leaf(4, 3)
    y = ops.linear(Tensor(np.ones((2, 3))), w)
    y.sum().backward()
    assert (w.grad == 2).all()
    assert not written


def test_the_uses_of_a_computed_argument_add_up_in_one_new_array() -> None:
    deferred_op, written = deferring((2, 3))
    x = leaf(2, 3)
    inner = x * 2.0
    (deferred_op(inner) + deferred_op(inner)).sum().backward()
    assert [add for _, add in written] == [False, True]
    assert written[0][0] is written[1][0]
    assert (x.grad == 4).all()


@pytest.mark.parametrize("deferred_first", [False, True])
def test_a_deferred_gradient_is_never_added_to_an_array_that_is_used_elsewhere(deferred_first: bool) -> None:
    deferred_op, _ = deferring((3,))
    x, other = leaf(3), leaf(3)
    inner, passed = x * 1.0, other * 1.0
    uses = [deferred_op(inner), inner + passed]  # the addition hands on the array that arrives to both
    (uses[0] + uses[1] if deferred_first else uses[1] + uses[0]).sum().backward()
    assert (x.grad == 2).all()
    assert (other.grad == 1).all()


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1), (1, 1), ()])
@pytest.mark.parametrize("computed", [False, True])
def test_a_broadcast_argument_receives_the_sum(shape: tuple[int, ...], computed: bool) -> None:
    deferred_op, written = deferring((2, 3), value=1.5)
    x = leaf(*shape)
    x.grad = np.full(shape, 10.0)
    deferred_op(x * 1.0 if computed else x).sum().backward()
    np.testing.assert_array_equal(x.grad, np.full(shape, 10 + 1.5 * 6 / max(x.size, 1)))
    assert len(written) == 1
    assert written[0][0].shape == (2, 3)


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [((3, 2), np.float64, r"shape \(3, 2\) for argument 0"), ((2, 3), np.float32, "dtype float32 for argument 0")],
)
def test_a_wrong_shape_or_dtype_is_refused_before_anything_is_written(shape: Any, dtype: Any, message: str) -> None:
    deferred_op, written = deferring(shape, dtype=dtype)
    with pytest.raises(ShapeError, match=message):
        deferred_op(leaf(2, 3)).sum().backward()
    assert not written


def test_anomalies_are_found_in_deferred_gradients() -> None:
    for value, computed in ((np.nan, False), (np.inf, True)):
        deferred_op, _ = deferring((2, 3), value=value)
        x = leaf(2, 3)
        with detect_anomaly():
            y = deferred_op(x * 1.0 if computed else x).sum()
            with pytest.raises(AnomalyError, match="the backward of deferred_op made"):
                y.backward()


def test_array_computes_the_gradient_into_a_new_array() -> None:
    gradient = Deferred((2,), np.dtype(np.float32), lambda out, add: out.fill(3))
    found = gradient.array()
    assert (found.tolist(), found.dtype) == ([3, 3], np.float32)
    assert gradient.array() is not found


def test_saved_arrays_are_those_in_the_closure_also_in_tuples_and_lists() -> None:
    one, two, three, number = np.ones(1), np.ones(2), np.ones(3), 4.0
    pair, others = (two, number), [three]

    def backward(dy: Array) -> Array:
        return dy * one * pair[1] + others[0].sum()

    assert [len(array) for array in sorted(saved_arrays(backward), key=len)] == [1, 2, 3]
    assert saved_arrays(lambda dy: dy) == []
