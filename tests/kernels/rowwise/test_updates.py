"""The AdamW update and the sum of squares, over more elements than a chunk."""

from __future__ import annotations

import warnings

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.kernels.rowwise import updates
from minigrad.kernels.rowwise.updates import AdamWFactors, adamw_update, sum_of_squares
from tests.kernels.machine_code import vector_loads

FACTORS = AdamWFactors(beta1=0.9, beta2=0.95, step_size=0.01, correction=1.5, eps=1e-8, keep=0.99, gradient_scale=0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_update_is_the_formula(dtype: type) -> None:
    rng = np.random.default_rng(0)
    w, g, m = (rng.normal(size=1_000).astype(dtype) for _ in range(3))
    v = np.abs(m) + dtype(0.1)
    before = w.copy()
    moments = 0.9 * m + 0.1 * (0.5 * g), 0.95 * v + 0.05 * (0.5 * g) ** 2
    adamw_update(w, g, m, v, FACTORS)
    close = {"rtol": 1e-5 if dtype == np.float32 else 1e-12, "atol": 1e-7}
    np.testing.assert_allclose(m, moments[0], **close)
    np.testing.assert_allclose(v, moments[1], **close)
    np.testing.assert_allclose(w, 0.99 * before - 0.01 * m / (np.sqrt(1.5 * v) + 1e-8), **close)


def test_a_learning_rate_too_large_for_float32_becomes_infinite_without_a_warning() -> None:
    arrays = [np.ones(3, np.float32) for _ in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adamw_update(*arrays, FACTORS._replace(step_size=1e300))
    assert np.isneginf(arrays[0]).all()


@pytest.mark.parametrize("size", [0, 1, updates._CHUNK - 1, updates._CHUNK, 3 * updates._CHUNK + 7])
def test_the_sum_of_squares_of_any_size(size: int) -> None:
    x = np.random.default_rng(size).normal(size=size).astype(np.float32)
    assert sum_of_squares(x) == pytest.approx(float((x.astype(np.float64) ** 2).sum()), rel=1e-5)


def test_the_sums_of_the_chunks_are_added_in_float64() -> None:
    x = np.zeros(updates._CHUNK + 1, np.float32)
    x[0], x[-1] = 2.0**13, 1  # in float32, 2^26 + 1 would be 2^26
    assert sum_of_squares(x) == 2**26 + 1


@given(st.integers(-149, 127), st.integers(1, 40), st.integers(0, 99))
def test_the_squares_of_any_float32_numbers_are_added(exponent: int, size: int, seed: int) -> None:
    draws = np.random.default_rng(seed).uniform(-1.9, 1.9, size)
    x = np.ldexp(draws, exponent).astype(np.float32)
    assert sum_of_squares(x) == pytest.approx(float((x.astype(np.float64) ** 2).sum()), rel=1e-5, abs=0)


def test_chunks_of_all_magnitudes_are_added_and_what_is_not_finite_stays_so() -> None:
    x = np.zeros(3 * updates._CHUNK, np.float32)
    x[0], x[updates._CHUNK], x[-1] = 1e-30, 1.0, 1e30
    assert sum_of_squares(x) == pytest.approx(1e60, rel=1e-5)
    for bad in (np.nan, np.inf, -np.inf):
        x[5] = bad
        assert not np.isfinite(sum_of_squares(x))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_sums_of_squares_load_vectors_and_do_not_gather_elements() -> None:
    numbers, number = numba.float32[::1], numba.int64
    loads = vector_loads(updates._sum_of_squares_chunks, (numbers, numba.float64[::1], number, number, number))
    assert any(kind.endswith(" float>") for kind in loads)
