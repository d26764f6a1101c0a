"""Whole numbers of 8 bits widened to floats, several at a time in a vector register.

A row of a cache has parts of eight or sixteen numbers with a scale each: too few for the compiler to find the vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.bits import float32_of
from minigrad.kernels.codegen.llvm import BYTE, FLOAT, SHORT, WORD, in_all_lanes, pointer_at
from minigrad.kernels.jit import emits, types
from minigrad.typing import Array

LANES = 8
"""The numbers that are widened together."""


def widen_together(numbers: Array, first: int, scales: Array, half: int, out: Array) -> None:
    """Set LANES elements of out, from `first` on, to numbers times scales[half], which are bits of bfloat16."""
    scale = float32_of(np.uint32(scales[half]) << np.uint32(16))
    out[first : first + LANES] = numbers[first : first + LANES].astype(np.float32) * scale


@emits(widen_together, types.void, None, types.int64, None, types.int64, None)
def _emit_widening(builder: Any, numbers: Any, first: Any, scales: Any, half: Any, out: Any) -> None:
    floats, element = ir.VectorType(FLOAT, LANES), out.data.type.pointee
    bits = builder.load(builder.gep(builder.bitcast(scales.data, SHORT.as_pointer()), [half]), align=1)
    word = builder.shl(builder.zext(bits, WORD), ir.Constant(WORD, 16))
    scale = in_all_lanes(builder, floats, builder.bitcast(word, FLOAT))
    those = builder.load(pointer_at(builder, numbers.data, first, ir.VectorType(BYTE, LANES)), align=1)
    found = builder.fmul(builder.sitofp(builder.sext(those, ir.VectorType(WORD, LANES)), floats), scale)
    wide = found if element == FLOAT else builder.fpext(found, ir.VectorType(element, LANES))
    builder.store(wide, pointer_at(builder, out.data, first, wide.type), align=4)
