"""Several numbers of 8 bits become floats at a time, and nothing beside them is written."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from minigrad.kernels.codegen.widening import LANES, widen_together
from minigrad.typing import Array


@numba.njit
def _widen(numbers: Array, first: int, scales: Array, half: int, out: Array) -> None:
    widen_together(numbers, first, scales, half, out)


@pytest.mark.parametrize("widen", [_widen, widen_together])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_are_multiplied_by_the_scale_of_their_half(widen, dtype) -> None:
    numbers, out = np.arange(-10, 14, dtype=np.int8), np.full(24, 9, dtype)
    widen(numbers, 8, np.array([0x3F80, 0x3F00], np.uint16), 1, out)  # 1 and 1/2
    assert out.tolist() == [9] * 8 + [number / 2 for number in range(-2, LANES - 2)] + [9] * 8
