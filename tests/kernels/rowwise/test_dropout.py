"""Dropout: a mask that is a function of place, and what is dropped is zero whatever it was."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.rowwise.dropout import Draws, Stream, draws_of, dropout
from tests.kernels.rowwise.draw_twins import drawn


@pytest.mark.parametrize("first", [0, 1, 6, 2**34 + 3])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 1_023, 1_024, 1_025, 5_000])
def test_the_mask_is_that_of_the_second_philox(size: int, first: int) -> None:
    x = np.arange(1, size + 1, dtype=np.float64)
    stream = Stream(2**40 + 5, 6, 7, first)
    draws, before = draws_of(0.3, stream, x.dtype), first % 4
    counters = first // 4 + np.arange(-(-(before + size) // 4))
    kept = drawn(counters, draws)[before : before + size] >= draws.threshold
    np.testing.assert_allclose(dropout(x, 0.3, stream), np.where(kept, x / 0.7, 0), rtol=1e-12)


def test_a_key_of_64_bits_and_counters_of_32_bits() -> None:
    draws = draws_of(0.25, Stream(0x1_0000_0002, 3, 4, 5), np.dtype(np.float32))
    assert draws == Draws(2, 1, 3, 4, 5, 2**30, np.float32(4 / 3))
    assert draws_of(0.9999999999999999, Stream(0), np.dtype(np.float64)).threshold == 2**32 - 1


def test_infinity_and_nan_are_dropped_to_zero() -> None:
    x = np.full((3, 200), np.inf, np.float32)
    x[1] = np.nan
    y = dropout(x, 0.5, Stream(1, 2, 3))
    assert 100 < (y == 0).sum() < 500
    assert y.shape == x.shape
    assert not np.isfinite(y[y != 0]).any()


def test_the_mean_stays() -> None:
    y = dropout(np.ones(100_000, np.float32), 0.1, Stream(1, 2, 3))
    assert y.mean() == pytest.approx(1, abs=0.01)
    assert set(np.unique(y)) == {0, np.float32(1 / 0.9)}
