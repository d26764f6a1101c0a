"""bfloat16: the upper half of a float32, with the same exponent and 8 bits of precision instead of 24.

NumPy has no such type: here such a number is a float32 whose lower half is zero, or its 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from minigrad.kernels import intrinsic, kernel, overload, rows_of, types
from minigrad.kernels.threads import over_rows

Array = NDArray[Any]


def bits_of(x: Any) -> Any:
    """Return the 32 bits of a float32 as a whole number (uint32); this body is what plain Python runs."""
    return np.float32(x).view(np.uint32)


@overload(bits_of)
def _bits_of(x):  # type: ignore[no-untyped-def]
    return lambda x: _float32_bits(x)  # type: ignore[call-arg]


@intrinsic
def _float32_bits(typing_context, x):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


def number_of(bits: Any) -> Any:
    """Return the float32 that these 32 bits (uint32) are; this body is what plain Python runs."""
    return np.uint32(bits).view(np.float32)


@overload(number_of)
def _number_of(bits):  # type: ignore[no-untyped-def]
    return lambda bits: _float32_number(bits)  # type: ignore[call-arg]


@intrinsic
def _float32_number(typing_context, bits):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@kernel
def bfloat16_bits(x: float) -> Any:
    """Round a float32 to bfloat16, to the nearest and ties to even; return its 16 bits in a uint32."""
    bits = bits_of(x)
    # Half a unit of the last place that stays, minus one if that place is even: ties then go to even.
    half = np.uint32(np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    rounded = np.uint32(np.uint32(bits + half) >> np.uint32(16))
    return rounded if x == x else np.uint32(0x7FC0)  # rounding would turn some NaN into infinity


@kernel
def _round_rows(x: Array, y: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        for j in range(x.shape[1]):
            y[i, j] = number_of(bfloat16_bits(x[i, j]) << np.uint32(16))


def round_bfloat16(x: Array) -> Array:
    """Return a float32 array with every number rounded to bfloat16; a transposed matrix stays one."""
    if x.flags.f_contiguous and not x.flags.c_contiguous:
        return round_bfloat16(x.T).T
    rows = rows_of(x)
    y = np.empty_like(rows)
    over_rows(lambda start, stop: _round_rows(rows, y, start, stop), len(rows), rows.shape[1])
    return y.reshape(x.shape)
