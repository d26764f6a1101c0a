"""Functions of one number at the ends of their range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import InputError, Tensor, ops
from tests import op_checks
from tests.op_table import Case

FAR = [-1e4, -100.0, -50.0, 0.0, 50.0, 100.0, 1e4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sigmoid", "silu", "tanh", "relu", "gelu"])
def test_far_out_everything_stays_finite(name: str, dtype: Any) -> None:
    result, (gradient,) = op_checks.run(getattr(ops, name), Case((np.array(FAR, dtype),)))
    assert gradient is not None
    assert np.isfinite(result).all()
    assert np.isfinite(gradient).all()
    if name in ("silu", "relu", "gelu"):
        np.testing.assert_allclose(result, np.maximum(FAR, 0), atol=1e-5)
    assert gradient[0] == gradient[1] == 0 or name != "tanh"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_swiglu_far_out(dtype: Any) -> None:
    gate, up = np.array(FAR, dtype), np.ones(len(FAR), dtype)
    result, gradients = op_checks.run(ops.swiglu, Case((gate, up)))
    np.testing.assert_allclose(result, np.maximum(FAR, 0), atol=1e-5)
    assert all(gradient is not None and np.isfinite(gradient).all() for gradient in gradients)


def test_sigmoid_keeps_small_probabilities() -> None:
    assert ops.sigmoid(Tensor(np.array([-700.0]))).item() == pytest.approx(np.exp(-700.0))


def test_relu_of_infinity_and_at_its_bend() -> None:
    x = Tensor(np.array([-np.inf, 0.0, np.inf]), requires_grad=True)
    y = ops.relu(x)
    assert y.tolist() == [0.0, 0.0, np.inf]
    y.backward(np.ones(3))
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


def test_gelu_knows_two_formulas() -> None:
    with pytest.raises(InputError, match="'none' and 'tanh', not 'quick'"):
        ops.gelu(Tensor([1.0]), approximate="quick")


def test_logarithms_and_roots_outside_their_domain() -> None:
    assert ops.log(Tensor([0.0])).item() == -np.inf
    assert np.isnan(ops.log(Tensor([-1.0])).item())
    assert np.isnan(ops.sqrt(Tensor([-1.0])).item())


def test_astype_converts_the_gradient_back() -> None:
    x = Tensor(np.array([1.5]), requires_grad=True)
    y = x.astype("float32")
    (y * y).backward()
    assert y.dtype == np.float32
    assert x.grad is not None
    assert x.grad.dtype == np.float64
    assert x.grad.tolist() == [3.0]
