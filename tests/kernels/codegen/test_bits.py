"""Bits of a float32 and back, compiled and in plain Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minigrad.kernels.codegen.bits import bfloat16_bits, bits_of, float32_of


@numba.njit
def _there_and_back(x: Any) -> Any:
    bits = bits_of(x)
    return bits, float32_of(bits)


@given(st.integers(0, 2**32 - 1))
def test_compiled_and_plain_give_the_same_bits(bits: int) -> None:
    x = np.uint32(bits).view(np.float32)
    found, again = _there_and_back(x)
    assert found == bits_of(x) == bits
    assert np.float32(again).tobytes() == float32_of(bits).tobytes() == x.tobytes()


@given(st.floats(width=32, allow_nan=False))
def test_rounding_to_bfloat16_chooses_the_nearest(x: float) -> None:
    found = np.uint32(int(bfloat16_bits(np.float32(x))) << 16).view(np.float32)
    if abs(x) > 3.3895e38:  # the largest bfloat16: above it, the nearest is infinity
        return
    unit = np.spacing(np.abs(np.float32(x)) + np.float32(0)) * 2.0**16
    assert abs(float(found) - float(np.float32(x))) <= unit / 2


def test_rounding_breaks_ties_to_even_and_keeps_nan() -> None:
    tie_down, tie_up = np.float32(1 + 2**-8), np.float32(1 + 3 * 2**-8)
    assert [int(bfloat16_bits(x)) for x in (np.float32(1), tie_down, tie_up)] == [0x3F80, 0x3F80, 0x3F82]
    nan = np.uint32(0x7F800001).view(np.float32)  # its upper half alone would be infinity
    assert int(bfloat16_bits(nan)) == 0x7FC0
