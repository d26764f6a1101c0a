"""The normal distribution function and its density by a formula: relative errors, the tails, and the ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from minigrad.kernels.rowwise.gelu import gelu_backward, gelu_forward
from minigrad.kernels.rowwise.normal_cdf import normal_float32

Array = np.ndarray[Any, Any]
X = np.linspace(-12.9, 15, 60_001, dtype=np.float32)  # from -12.95 downwards the results are subnormal


def normals(x: Array) -> Array:
    return np.array([normal_float32(np.float32(value)) for value in x], np.float32).T


def exact(x: Array) -> tuple[Array, Array]:
    values = x.astype(np.float64)
    return (
        np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in values]),
        np.exp(-(values**2) / 2) / math.sqrt(2 * math.pi),
    )


def test_the_relative_error_is_that_of_float32_also_in_the_tail() -> None:
    (probability, density), wanted = normals(X), exact(X)
    assert np.abs(probability / wanted[0] - 1).max() < 6e-7
    normal = np.abs(X) < 12.9
    assert np.abs(density[normal] / wanted[1][normal] - 1).max() < 6e-7


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gelu_and_its_gradient_have_small_relative_errors(dtype: Any) -> None:
    x = X.astype(dtype)
    (probability, density), allowed = exact(X), 7e-7 if dtype == np.float32 else 1e-13
    wanted, gradient = X * probability, probability + X.astype(np.float64) * density
    assert (np.abs(gelu_forward(x, True) - wanted) <= allowed * np.abs(wanted)).all()
    # The two terms cancel near -0.75: the error is relative to their sizes.
    size = probability + np.abs(X) * density
    assert (np.abs(gelu_backward(np.ones_like(x), x, True) - gradient) <= allowed * size).all()


@pytest.mark.parametrize(("x", "y"), [(0.0, 0.5), (-40.0, 0.0), (40.0, 1.0), (-math.inf, 0.0), (math.inf, 1.0)])
def test_middle_and_ends(x: float, y: float) -> None:
    probability, density = normals(np.array([x]))[:, 0]
    assert probability == pytest.approx(y, abs=1e-7)
    assert density == pytest.approx(0.3989423 if x == 0 else 0, rel=1e-6)


def test_not_a_number_stays_one() -> None:
    assert np.isnan(normals(np.array([np.nan]))).all()
