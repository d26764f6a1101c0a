"""The largest of some numbers: at every place, of numbers of both signs, of -inf, and with NaN."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from minigrad import Tensor, ops
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
def test_nan_without_a_sign_is_the_largest(dtype: type) -> None:
    x = np.full(20, np.inf, dtype)
    x[7] = np.nan
    assert np.isnan(largest(x))


@TYPES
@pytest.mark.parametrize("sign", [1, -1])
def test_nan_of_any_sign_reaches_the_results(dtype: type, sign: int) -> None:
    x = np.zeros((2, 20), dtype)
    x[1, 7] = np.copysign(np.nan, sign)
    assert np.isnan(ops.softmax(Tensor(x)).data[1]).all()
    assert np.isnan(ops.log_softmax(Tensor(x)).data[1]).all()
    assert np.isnan(ops.cross_entropy(Tensor(x), [3, 3]).item())
