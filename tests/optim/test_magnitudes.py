"""Gradients of any size that float32 holds: norms, clipping and updates are right, and weights stay finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, Tensor
from minigrad.errors import DivergenceError
from minigrad.optim import SGD, AdamW, Muon, Optimizer, clip_gradients, global_norm
from minigrad.optim.clip import LARGEST_NORM
from minigrad.optim.muon import orthogonalise
from minigrad.typing import Array

MAKE: dict[str, Callable[[Tensor], Optimizer]] = {
    "AdamW": lambda w: AdamW([w], lr=0.1, weight_decay=0.0),
    "Muon": lambda w: Muon([w], lr=0.1, weight_decay=0.0, matrices=[w]),
    "SGD": lambda w: SGD([w], lr=0.1, momentum=0.9),
}
every_kind = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
EXPONENTS = st.integers(-149, 126)  # 2^-149 is the smallest number of float32, about 1e-45, and 2^126 about 1e38
SHAPES = st.sampled_from([(1, 1), (1, 7), (7, 1), (4, 6), (6, 4), (20, 20)])


def gradient_of(exponent: int, shape: tuple[int, int], seed: int) -> Array:
    """Return float32 draws whose largest magnitude is 2^exponent."""
    draws = np.random.default_rng(seed).normal(size=shape)
    return np.ldexp(draws / np.abs(draws).max(), exponent).astype(np.float32)


def parameter(gradient: Array) -> Tensor:
    w = Tensor(np.ones(gradient.shape, np.float32), requires_grad=True)
    w.grad = gradient.copy()
    return w


@given(EXPONENTS, SHAPES, st.integers(0, 99), st.floats(-30, 30))
def test_the_norm_and_the_clipped_gradient_are_right(
    exponent: int, shape: tuple[int, int], seed: int, decades: float
) -> None:
    gradient = gradient_of(exponent, shape, seed)
    exact = math.sqrt((gradient.astype(np.float64) ** 2).sum())
    w, max_norm = parameter(gradient), exact * 10**decades
    assert clip_gradients([w], max_norm) == pytest.approx(exact, rel=1e-6, abs=0)
    tiniest = 1e-45 * gradient.size
    assert global_norm([w]) == pytest.approx(min(exact, max_norm), rel=1e-3, abs=tiniest)


@given(EXPONENTS, SHAPES, st.integers(0, 99))
def test_orthogonalising_turns_a_matrix_of_any_size_as_far(exponent: int, shape: tuple[int, int], seed: int) -> None:
    u = gradient_of(exponent, shape, seed)
    exact = orthogonalise(u.astype(np.float64))
    np.testing.assert_allclose(orthogonalise(u), exact, atol=5e-5)


@given(st.integers(-40, 40), SHAPES, st.integers(0, 99))
def test_a_power_of_two_changes_no_bit_of_an_update(exponent: int, shape: tuple[int, int], seed: int) -> None:
    u = gradient_of(0, shape, seed)
    np.testing.assert_array_equal(orthogonalise(np.ldexp(u, exponent)), orthogonalise(u))


@every_kind
@given(exponent=EXPONENTS, shape=SHAPES, seed=st.integers(0, 99), max_norm=st.sampled_from([1.0, math.inf]))
def test_updates_are_finite_and_the_norm_is_true(
    make: Callable[[Tensor], Optimizer], exponent: int, shape: tuple[int, int], seed: int, max_norm: float
) -> None:
    gradient = gradient_of(exponent, shape, seed)
    w = parameter(gradient)
    optimizer, exact = make(w), math.sqrt((gradient.astype(np.float64) ** 2).sum())
    for _ in range(3):
        assert optimizer.step(max_norm=max_norm) == pytest.approx(exact, rel=1e-6, abs=0)
    assert np.isfinite(w.data).all()
    assert all(np.isfinite(moment).all() for (*moments,) in optimizer.moments() for moment in moments)


@given(st.integers(-110, 126), SHAPES, st.integers(0, 99), st.sampled_from([1.0, math.inf]))
def test_muon_turns_by_a_gradient_of_any_size_as_far(
    exponent: int, shape: tuple[int, int], seed: int, max_norm: float
) -> None:
    gradient = gradient_of(exponent, shape, seed)
    w = parameter(gradient)
    MAKE["Muon"](w).step(max_norm=max_norm)
    expected = 1 - 0.1 * 0.2 * math.sqrt(max(shape)) * orthogonalise(gradient)
    np.testing.assert_allclose(w.data, expected, atol=1e-5)


@given(st.integers(-149, -111), SHAPES, st.integers(0, 99))
def test_muon_turns_as_far_by_the_smallest_numbers(exponent: int, shape: tuple[int, int], seed: int) -> None:
    w = parameter(gradient_of(exponent, shape, seed))  # whose momentum float32 rounds
    MAKE["Muon"](w).step()
    turned = (1 - w.data) / (0.1 * 0.2 * math.sqrt(max(shape)))
    assert 0.6 < np.linalg.norm(turned, 2) < 1.3


@given(st.integers(0, 126), st.integers(0, 99))
def test_adamw_moves_by_the_learning_rate_whatever_the_size_of_the_gradient(exponent: int, seed: int) -> None:
    gradient = gradient_of(exponent, (4, 6), seed)
    w = parameter(gradient)
    optimizer = MAKE["AdamW"](w)
    for _ in range(2):
        optimizer.step()
    np.testing.assert_allclose(w.data, 1 - 0.2 * np.sign(gradient), atol=1e-2)


@every_kind
@pytest.mark.parametrize("size", [1.0, 1e-44, 1e38])
def test_a_thousand_steps_without_a_gradient(make: Callable[[Tensor], Optimizer], size: float) -> None:
    w = parameter(np.float32(size) * np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32))
    optimizer = make(w)
    for _ in range(5):
        optimizer.step(max_norm=1.0)
    assert w.grad is not None
    w.grad[...] = 0
    states = []
    for _ in range(1_000):
        assert optimizer.step(max_norm=1.0) == 0
        states.append(w.data.copy())
    assert np.isfinite(states[-1]).all()
    np.testing.assert_allclose(states[-1], states[-200], rtol=1e-6)


def test_a_matrix_without_a_gradient_is_decayed_and_not_turned() -> None:
    w = parameter(np.ones((3, 4), np.float32))
    optimizer = Muon([w], lr=0.1, weight_decay=0.5, matrices=[w])
    optimizer.step()
    assert w.grad is not None
    w.grad[...] = 0
    before, (momentum,) = w.data.copy(), optimizer.moments()[0]
    kept = momentum.copy()
    optimizer.step()
    np.testing.assert_allclose(w.data, 0.95 * before, rtol=1e-6)
    np.testing.assert_allclose(momentum, (0.85 + 0.1 * 2 / 300) * kept, rtol=1e-6)


def test_a_gradient_that_was_not_clipped_counts_with_a_norm_that_float32_can_square() -> None:
    w = parameter(np.full((2, 2), 1e30, np.float32))
    assert SGD([w], lr=1.0).step() == pytest.approx(2e30)
    np.testing.assert_allclose(w.data, -LARGEST_NORM / 2, rtol=1e-6)


@every_kind
@pytest.mark.parametrize("lr", [1e40, 1e300])
def test_weights_that_would_not_be_finite_are_an_error(make: Callable[[Tensor], Optimizer], lr: float) -> None:
    w = parameter(np.ones((2, 2), np.float32))
    with pytest.raises(DivergenceError, match="made weights that are not finite; the learning rate 1e"):
        make(w).step(lr=lr)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_a_largest_norm_that_cannot_be_used_is_refused_and_nothing_changes(bad: float) -> None:
    w: Any = parameter(np.ones((2, 2), np.float32))
    optimizer = AdamW([w])
    for call in (lambda: optimizer.step(max_norm=bad), lambda: clip_gradients([w], bad)):
        with pytest.raises(InputError, match="largest norm of a gradient, is above 0, not"):
            call()
    assert optimizer.steps == 0
    assert (w.data == 1).all()
    assert (w.grad == 1).all()
