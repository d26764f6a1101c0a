"""Arithmetic: powers at zero, the larger of NaN and a number, and shapes that cannot be combined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor, ops


@pytest.mark.parametrize("call", [ops.add, ops.subtract, ops.multiply, ops.divide])
def test_shapes_that_do_not_broadcast_are_both_named(call: Any) -> None:
    message = rf"{call.__name__} cannot combine shapes \(2, 3\) and \(4, 5\)"
    with pytest.raises(ShapeError, match=message):
        call(Tensor(np.zeros((2, 3))), Tensor(np.zeros((4, 5))))


@pytest.mark.parametrize("call", [ops.maximum, ops.minimum])
def test_nan_shares_its_gradient_as_equal_elements_do(call: Any) -> None:
    a, b = (Tensor(values, requires_grad=True) for values in ([np.nan, 1.0, 2.0], [1.0, np.nan, 2.0]))
    call(a, b).sum().backward()
    for x in (a, b):
        assert x.grad is not None
        assert x.grad.tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(("exponent", "slope"), [(0, 0.0), (1, 1.0), (2, 0.0)])
def test_a_power_of_zero_has_a_finite_gradient(exponent: int, slope: float) -> None:
    x = Tensor(np.zeros(2), requires_grad=True)
    (x**exponent).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [slope, slope]


def test_an_exponent_that_is_no_plain_number_is_refused() -> None:
    with pytest.raises(InputError, match=r"exp\(p \* log\(x\)\)"):
        ops.power(Tensor([1.0]), exponent=np.zeros(2))


def test_a_numpy_exponent_leaves_float32() -> None:
    assert ops.power(Tensor([2.0]), exponent=np.float64(2)).dtype == np.float32
    assert (Tensor([3]) ** np.int64(2)).data.tolist() == [9]
