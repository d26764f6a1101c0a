"""The normal distribution function by a formula: its error over the whole range, and what it does at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minigrad.kernels.rowwise.normal_cdf import normal_float32


def normals(x: np.ndarray) -> np.ndarray:
    return np.array([normal_float32(np.float32(value)) for value in x], np.float32)


def test_error_over_the_whole_range() -> None:
    x = np.linspace(-15, 15, 30_001, dtype=np.float32)
    exact = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x.astype(np.float64)])
    error = np.abs(normals(x) - exact)
    assert error.max() < 3e-7
    assert (np.abs(x) * error).max() < 4e-7  # what it adds to GELU
    assert (error[x < -6]).max() < 1e-9  # the tail itself is small, and so is what is wrong with it


@pytest.mark.parametrize(("x", "y"), [(0.0, 0.5), (-40.0, 0.0), (40.0, 1.0), (-math.inf, 0.0), (math.inf, 1.0)])
def test_middle_and_ends(x: float, y: float) -> None:
    assert normals(np.array([x]))[0] == pytest.approx(y, abs=1e-7)


def test_not_a_number_stays_one() -> None:
    assert np.isnan(normals(np.array([np.nan]))[0])
