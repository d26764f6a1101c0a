"""The bits of a float32 as an integer and back, and bfloat16: the upper half of those bits.

bfloat16 has the exponent of float32 and 8 bits of precision instead of 24. NumPy has no such type: here a bfloat16 is
either a float32 whose lower half is zero, or its 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.jit import intrinsic, kernel, overload, types


def bits_of(x: Any) -> Any:
    """Return the 32 bits of a float32 as an integer (uint32); plain Python runs this body."""
    return np.float32(x).view(np.uint32)


@overload(bits_of)
def _bits_of(x):  # type: ignore[no-untyped-def]
    return lambda x: _bits_of_float32(x)  # type: ignore[call-arg]


@intrinsic
def _bits_of_float32(typing_context, x):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


def float32_of(bits: Any) -> Any:
    """Return the float32 with these 32 bits (uint32); plain Python runs this body."""
    return np.uint32(bits).view(np.float32)


@overload(float32_of)
def _float32_of(bits):  # type: ignore[no-untyped-def]
    return lambda bits: _float32_of_bits(bits)  # type: ignore[call-arg]


@intrinsic
def _float32_of_bits(typing_context, bits):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@kernel
def bfloat16_bits(x: float) -> Any:
    """Round a float32 to bfloat16, to nearest with ties to even; return its 16 bits in a uint32."""
    bits = bits_of(x)
    # Half a unit of the last place that stays, minus one if that place is even: ties then go to even.
    half = np.uint32(np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    rounded = np.uint32(np.uint32(bits + half) >> np.uint32(16))
    return rounded if x == x else np.uint32(0x7FC0)  # rounding would turn some NaN into infinity
