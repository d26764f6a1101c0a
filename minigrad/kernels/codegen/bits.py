"""The bits of a float32 as an integer and back, and bfloat16: the upper half of those bits.

bfloat16 has the exponent of float32 and 8 bits of precision instead of 24. NumPy has no such type: here a bfloat16 is
either a float32 whose lower half is zero, or its 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.llvm import FLOAT, HALF, WORD, repeated
from minigrad.kernels.jit import emits, host_features, kernel, types


def bits_of(x: Any) -> Any:
    """Return the 32 bits of a float32 as an integer (uint32)."""
    return np.float32(x).view(np.uint32)


@emits(bits_of, types.uint32, types.float32)
def _emit_bits(builder: Any, x: Any) -> Any:
    return builder.bitcast(x, WORD)


def float32_of(bits: Any) -> Any:
    """Return the float32 with these 32 bits (uint32)."""
    return np.uint32(bits).view(np.float32)


@emits(float32_of, types.float32, types.uint32)
def _emit_float32(builder: Any, bits: Any) -> Any:
    return builder.bitcast(bits, FLOAT)


def float32_of_float16(bits: Any) -> Any:
    """Return the float32 that equals the finite float16 with these 16 bits (uint16)."""
    return np.float32(np.uint16(bits).view(np.float16))


@emits(float32_of_float16, types.float32, types.uint16)
def emit_float32_of_float16(builder: Any, bits: Any) -> Any:
    """Return the floats that equal finite float16 with these 16 bits, of an integer or of each lane of a vector."""
    count = getattr(bits.type, "count", 0)

    def kind(element: Any) -> Any:
        return ir.VectorType(element, count) if count else element

    def constant(element: Any, number: float) -> Any:
        return repeated(kind(element), number) if count else ir.Constant(element, number)

    if host_features() & {"f16c", "neon"}:
        return builder.fpext(builder.bitcast(bits, kind(HALF)), kind(FLOAT))
    # Without an instruction for it: exponent and fraction move to their places in a float32. The exponent of a float32
    # counts from 127, that of a float16 from 15: so the number is too small by a factor of 2^112, subnormal or not.
    word = builder.zext(bits, kind(WORD))
    sign = builder.shl(builder.and_(word, constant(WORD, 0x8000)), constant(WORD, 16))
    small = builder.shl(builder.and_(word, constant(WORD, 0x7FFF)), constant(WORD, 13))
    size = builder.fmul(builder.bitcast(small, kind(FLOAT)), constant(FLOAT, 2.0**112))
    return builder.bitcast(builder.or_(builder.bitcast(size, kind(WORD)), sign), kind(FLOAT))


@kernel
def bfloat16_bits(x: float) -> Any:
    """Round a float32 to bfloat16, to nearest with ties to even; return its 16 bits in a uint32."""
    bits = bits_of(x)
    # Half a unit of the last place that stays, minus one if that place is even: ties then go to even.
    half = np.uint32(np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    rounded = np.uint32(np.uint32(bits + half) >> np.uint32(16))
    return rounded if x == x else np.uint32(0x7FC0)  # rounding would turn some NaN into infinity


@kernel
def rounded_to_bfloat16(x: float) -> Any:
    """Return the float32 that is nearest to x among the bfloat16."""
    return float32_of(bfloat16_bits(x) << np.uint32(16))
