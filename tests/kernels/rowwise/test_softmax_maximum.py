"""The largest of some numbers: at every place, of numbers of both signs, of -inf, and with NaN."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from minigrad.kernels.rowwise.softmax import largest_of

Array = NDArray[Any]
TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@numba.njit
def largest(x: Array) -> Any:
    return largest_of(x)


@TYPES
@pytest.mark.parametrize("width", [1, 15, 16, 17, 50])
@pytest.mark.parametrize(("number", "rest"), [(3, -5), (-3, -5), (0, -1e-40), (1e-40, 0), (np.inf, 1)])
def test_the_largest_is_found_at_every_place(dtype: type, width: int, number: float, rest: float) -> None:
    for place in range(width):
        x = np.full(width, rest, dtype)
        x[place] = number
        assert largest(x) == dtype(number)


@TYPES
def test_of_no_numbers_and_of_nothing_but_minus_infinity_it_is_minus_infinity(dtype: type) -> None:
    assert largest(np.zeros(0, dtype)) == -np.inf
    assert largest(np.full(40, -np.inf, dtype)) == -np.inf


@TYPES
def test_it_is_that_of_numpy(dtype: type) -> None:
    rng = np.random.default_rng(0)
    for size in range(1, 200):
        x = (rng.normal(size=size) * 10.0 ** rng.integers(-30, 30, size)).astype(dtype)
        assert largest(x) == x.max()


@TYPES
def test_nan_is_not_lost(dtype: type) -> None:
    x = np.full(20, np.inf, dtype)
    x[7] = np.nan
    assert np.isnan(largest(x))
