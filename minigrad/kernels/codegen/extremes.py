"""The largest and the smallest absolute value of elements, found while they are in registers to be packed.

The bits of a float32 without its sign, read as an integer, rise with its absolute value, and those of infinity and NaN
are the highest. So two integer comparisons for each register of elements find the largest and the smallest. Zeros do
not count as small: subtracting 1 from the bits turns 0 into the highest integer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.llvm import WORD, data_of, pointer_at
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.jit import intrinsic, overload, types
from minigrad.typing import Array

NO_LARGEST, NO_SMALLEST = np.uint32(0), np.uint32(0xFFFFFFFF)
NO_EXTREMES = np.repeat(np.array([NO_LARGEST, NO_SMALLEST]), SIDE)
"""The extremes of no elements."""
_ABSOLUTE = 0x7FFFFFFF


def update_extremes(x: Array, start: int, extremes: Array) -> None:
    """Update extremes with x[start : start + SIDE], lane by lane; both arrays are flat.

    extremes[:SIDE] are the largest bits of absolute values, extremes[SIDE:] the smallest such bits of non-zero elements
    minus 1. Plain Python runs this body (NUMBA_DISABLE_JIT=1).
    """
    bits = x[start : start + SIDE].view(np.uint32) & np.uint32(_ABSOLUTE)
    extremes[:SIDE] = np.maximum(extremes[:SIDE], bits)
    extremes[SIDE:] = np.minimum(extremes[SIDE:], bits - np.uint32(1))


@overload(update_extremes)
def _update_extremes(x, start, extremes):  # type: ignore[no-untyped-def]
    return lambda x, start, extremes: _in_registers(x, start, extremes)  # type: ignore[call-arg]


@intrinsic
def _in_registers(typing_context, x, start, extremes):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        register = ir.VectorType(WORD, SIDE)
        source, target = (data_of(context, builder, signature.args[i], arguments[i]) for i in (0, 2))
        loaded = builder.load(pointer_at(builder, source, arguments[1], register), align=4)
        bits = builder.and_(loaded, ir.Constant(register, [_ABSOLUTE] * SIDE))
        for half, order, value in ((0, ">", bits), (1, "<", builder.sub(bits, ir.Constant(register, [1] * SIDE)))):
            place = pointer_at(builder, target, ir.Constant(ir.IntType(64), half * SIDE), register)
            before = builder.load(place, align=4)
            builder.store(builder.select(builder.icmp_unsigned(order, value, before), value, before), place, align=4)
        return context.get_dummy_value()

    return types.void(x, types.int64, extremes), generate
