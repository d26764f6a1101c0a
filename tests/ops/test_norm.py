"""Norms: the size of the rows they return, rows of zeros or far from zero, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor, ops


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e4])
def test_rows_of_any_scale_are_normalised_to_one(scale: float) -> None:
    x = Tensor(np.random.default_rng(0).normal(5, 1, (4, 64)) * scale)
    one, zero = Tensor(np.ones(64)), Tensor(np.zeros(64))
    rms = ops.rms_norm(x, one, eps=1e-12).data
    np.testing.assert_allclose((rms**2).mean(axis=1), 1, rtol=1e-6)
    layer = ops.layer_norm(x, one, zero, eps=1e-12).data
    np.testing.assert_allclose(layer.mean(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(layer.var(axis=1), 1, rtol=1e-6)


def test_a_row_of_zeros_has_a_finite_gradient() -> None:
    x = Tensor(np.zeros((2, 8)), requires_grad=True)
    ops.rms_norm(x, Tensor(np.ones(8))).sum().backward()
    assert x.grad is not None
    assert np.isfinite(x.grad).all()


def test_layer_norm_far_from_zero_keeps_its_digits() -> None:
    # The mean of the squares minus the square of the mean would lose all of them.
    x = (1e4 + np.arange(8)).astype(np.float32)[None]
    y = ops.layer_norm(Tensor(x), Tensor(np.ones(8, np.float32)), Tensor(np.zeros(8, np.float32))).data
    exact = (x - x.mean(dtype=float)) / x.std(dtype=float)
    np.testing.assert_allclose(y, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(3,), (2, 4), ()])
def test_a_weight_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    x, weight = Tensor(np.zeros((2, 4))), Tensor(np.zeros(shape))
    with pytest.raises(ShapeError, match=r"rms_norm .* input \(2, 4\).* expected \(4,\)"):
        ops.rms_norm(x, weight)
    with pytest.raises(ShapeError, match="layer_norm"):
        ops.layer_norm(x, Tensor(np.ones(4)), weight)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_whose_squares_overflow_is_nan_and_others_are_not_touched(dtype: type) -> None:
    large = 1e30 if dtype == np.float32 else 1e200
    for value in (large, np.inf, -np.inf, np.nan):
        x = np.ones((3, 5), dtype)
        x[1, 2] = value
        y = ops.rms_norm(x, np.ones(5, dtype)).data
        assert np.isnan(y[1]).all()
        np.testing.assert_allclose(y[[0, 2]], 1, rtol=1e-4)


@pytest.mark.parametrize("eps", [-9, math.nan, math.inf, "small"])
def test_an_eps_that_cannot_be_used_is_refused(eps: Any) -> None:
    x, w = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    for name, vectors in (("rms_norm", 1), ("layer_norm", 2)):
        with pytest.raises(InputError, match=rf"eps of {name} takes a finite number of at least 0, not "):
            getattr(ops, name)(x, *[w] * vectors, eps=eps)


@pytest.mark.parametrize(("dtype", "value"), [("float32", 1e20), ("float64", 1e200)])
def test_a_layer_norm_whose_squares_overflow_is_nan(dtype: str, value: float) -> None:
    x = np.array([[value, -value, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]], dtype)
    y = ops.layer_norm(x, np.ones(4, dtype), np.full(4, 7, dtype)).data
    assert np.isnan(y[0]).all()
    assert np.isfinite(y[1]).all()
