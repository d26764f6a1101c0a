"""Functions of a single value at the ends of their range."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, Tensor, ops
from minigrad.ops.elementwise import gelu_formula
from tests import op_checks
from tests.op_table import Case

LARGE = [-1e4, -100.0, -50.0, 0.0, 50.0, 100.0, 1e4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sigmoid", "silu", "tanh", "relu", "gelu"])
def test_large_values_give_finite_results_and_gradients(name: str, dtype: Any) -> None:
    result, (gradient,) = op_checks.run(getattr(ops, name), Case((np.array(LARGE, dtype),)))
    assert gradient is not None
    assert np.isfinite(result).all()
    assert np.isfinite(gradient).all()
    if name in ("silu", "relu", "gelu"):
        np.testing.assert_allclose(result, np.maximum(LARGE, 0), atol=1e-5)
    assert gradient[0] == gradient[1] == 0 or name != "tanh"


def test_sigmoid_keeps_small_probabilities() -> None:
    assert ops.sigmoid(Tensor(np.array([-700.0]))).item() == pytest.approx(np.exp(-700.0))


def test_relu_of_infinity_and_its_derivative_at_zero() -> None:
    x = Tensor(np.array([-np.inf, 0.0, np.inf]), requires_grad=True)
    y = ops.relu(x)
    assert y.tolist() == [0.0, 0.0, np.inf]
    y.backward(np.ones(3))
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


def test_the_gelu_is_the_share_of_normal_draws_below_a_value() -> None:
    x = np.array([-1.0, 0.0, 0.5, 2.0])
    draws = np.random.default_rng(0).normal(size=1_000_000)
    share = (draws < x[:, None]).mean(axis=1)
    np.testing.assert_allclose(gelu_formula(x), x * share, atol=0.003)
    np.testing.assert_allclose(gelu_formula(x, approximate="tanh"), gelu_formula(x), atol=4e-4)
    assert gelu_formula(np.array([1.0])).item() == pytest.approx((1 + math.erf(math.sqrt(0.5))) / 2)


def test_an_unknown_gelu_is_refused() -> None:
    with pytest.raises(InputError, match="'none' or 'tanh', not 'quick'"):
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


def test_what_was_not_chosen_gets_no_gradient_even_if_that_is_infinite() -> None:
    """The derivative of sqrt at 0 is infinite, and infinity times 0 would be NaN."""
    for choose in (
        ops.relu,
        lambda x: ops.maximum(x, 0.0),
        lambda x: -ops.minimum(-x, 0.0),
        lambda x: ops.where(x.data > 0, x, 0.0),
    ):
        x = Tensor([-1.0, 4.0], requires_grad=True)
        with np.errstate(divide="ignore"):
            choose(x).sqrt().sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [0.0, 0.25]
    x = Tensor([[0.0, -1.0]], requires_grad=True)
    with np.errstate(divide="ignore"):
        x.max(axis=1).sqrt().sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[np.inf, 0.0]]


def test_the_gradient_of_an_absolute_value_is_zero_at_zero() -> None:
    x = Tensor([-2.0, 0.0, 3.0], requires_grad=True)
    ops.absolute(x).sum().backward()
    assert np.asarray(x.grad).tolist() == [-1, 0, 1]
