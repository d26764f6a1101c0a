"""SwiGLU: large gates, the fused product, and shapes that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import ShapeError, Tensor, ops
from tests import op_checks
from tests.op_table import Array, Case

GATES = [-1e4, -100.0, -50.0, 0.0, 50.0, 100.0, 1e4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_gates_pass_all_or_nothing_without_overflow(dtype: Any) -> None:
    gate, up = np.array(GATES, dtype), np.ones(len(GATES), dtype)
    result, gradients = op_checks.run(ops.swiglu, Case((gate, up)))
    np.testing.assert_allclose(result, np.maximum(GATES, 0), atol=1e-5)
    assert all(gradient is not None and np.isfinite(gradient).all() for gradient in gradients)


def test_swiglu_linear_is_swiglu_and_then_linear() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((2, 3, 6), (2, 3, 6), (4, 6))]
    found: list[list[Array]] = []
    for fused in (False, True):
        gate, up, weight = tensors = [Tensor(array, requires_grad=True) for array in arrays]
        y = ops.swiglu_linear(gate, up, weight) if fused else ops.linear(ops.swiglu(gate, up), weight)
        (y * y).sum().backward()
        found.append([y.data, *(np.asarray(tensor.grad) for tensor in tensors)])
    for got, wanted in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-12)


def test_shapes_that_differ_are_named() -> None:
    one, other = Tensor(np.zeros((2, 3))), Tensor(np.zeros((2, 4)))
    with pytest.raises(ShapeError, match=r"swiglu needs arrays of one shape .* \(2, 3\), \(2, 4\)"):
        ops.swiglu(one, other)
    with pytest.raises(
        ShapeError, match=r"swiglu_linear needs .* weight \(C, F\); got \(2, 3\), \(2, 3\) and \(5, 4\)"
    ):
        ops.swiglu_linear(one, one, Tensor(np.zeros((5, 4))))
