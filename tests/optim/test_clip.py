"""Clipping: the direction of the gradient stays, its norm is bounded, and what is not finite stays as it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import Tensor
from minigrad.optim import clip_gradients, global_norm
from minigrad.optim.clip import clip_factor
from tests.optim.test_adamw import leaves, set_gradients


@given(st.floats(0.01, 100), st.integers(0, 99))
def test_clipping_keeps_the_direction_and_bounds_the_norm(max_norm: float, seed: int) -> None:
    parameters = leaves()
    set_gradients(parameters, seed)
    before = [parameter.grad.copy() for parameter in parameters if parameter.grad is not None]
    norm = clip_gradients(parameters, max_norm)
    assert norm == pytest.approx(math.sqrt(sum((g**2).sum() for g in before)))
    factor = min(1.0, max_norm / norm)
    for parameter, gradient in zip(parameters, before, strict=True):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad, gradient * factor, rtol=1e-12)
    assert global_norm(parameters) <= max_norm * (1 + 1e-9) or factor == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_not_scaled(bad: float) -> None:
    x = Tensor(np.zeros(3), requires_grad=True)
    x.grad = np.array([1.0, bad, 2.0])
    assert not math.isfinite(clip_gradients([x], 1.0))
    np.testing.assert_array_equal(x.grad, [1.0, bad, 2.0])


def test_a_norm_up_to_the_bound_is_not_scaled() -> None:
    assert clip_factor(2.0, 2.0) == clip_factor(0.0, 2.0) == clip_factor(5.0, math.inf) == 1.0
    assert clip_factor(4.0, 1.0) == 0.25


def test_an_iterator_of_parameters_is_clipped() -> None:
    parameters = leaves()
    set_gradients(parameters, 0)
    norm = clip_gradients((parameter for parameter in parameters), 0.1)
    assert norm > 1
    assert global_norm(parameter for parameter in parameters) == pytest.approx(0.1)


def test_frozen_parameters_are_skipped() -> None:
    parameters = leaves()
    set_gradients(parameters, 0)
    parameters[0].requires_grad = False
    rest = math.sqrt(sum((np.asarray(parameter.grad) ** 2).sum() for parameter in parameters[1:]))
    assert clip_gradients(parameters, 0.1) == pytest.approx(rest)
    assert global_norm(parameters) == pytest.approx(0.1)
    assert parameters[0].grad is None


def test_parameters_without_a_gradient_have_the_norm_zero() -> None:
    assert global_norm(leaves()) == 0.0
    assert global_norm([]) == 0.0
