"""float32 elements turned into words of two bfloat16, rounded or split into three parts.

Rounding a float32 to bfloat16 leaves 8 of its 24 bits of precision. Splitting it into three bfloat16 parts loses
nothing: x = high + middle + low, 8 bits each. A product of two elements is then nine products of parts. The three
smallest, middle * low, low * middle and low * low, are as small as float32's own rounding and are left out. Where one
instruction does sixteen times as many multiply-adds of bfloat16 as another does of float32, six products instead of one
are still faster (Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for
higher-precision computations", arXiv 1904.06376).

`high` is truncated, not rounded, so that it cannot overflow; `middle` is rounded, so that `low` is positive as often as
negative and the dropped terms are unbiased. So sums of eight terms or more have half the error that float32's own
instructions give. Two things are lost, at the ends of the range of float32. The processor treats numbers below 2^-126
as zero, so elements below 2^-103, and products below 2^-98, can lose their last bits. And where float32 gives
infinity, because a factor is infinite or a product is too large, this gives infinity or NaN. Products with such values
are computed by other means (`minigrad.kernels.gemm.split_range`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.bits import bfloat16_bits
from minigrad.kernels.codegen.llvm import FLOAT, WORD, data_of, int64
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.jit import intrinsic, overload, types
from minigrad.typing import Array

_UPPER, _HALF = 0xFFFF0000, 0x8000


def round_pairs(x: Array, first: int, second: int, distance: int, words: Array, start: int) -> None:
    """Round x[first + i * distance] and x[second + i * distance] to the word words[start + i], for i below SIDE.

    The arrays are flat. `distance` is 1, or 2 when the pairs follow each other (second is then first + 1). Plain Python
    runs this body, and that of the next function.
    """
    for i in range(SIDE):
        low, high = bfloat16_bits(x[first + i * distance]), bfloat16_bits(x[second + i * distance])
        words[start + i] = low | high << np.uint32(16)


def split_pairs(x: Array, first: int, second: int, distance: int, words: Array, start: int, part_stride: int) -> None:
    """Split the same elements into three parts; the words of each part begin `part_stride` after those before it."""
    for i in range(SIDE):
        both = [_parts_of(x[index]) for index in (first + i * distance, second + i * distance)]
        for number, (low, high) in enumerate(zip(*both, strict=True)):
            words[start + number * part_stride + i] = low >> np.uint32(16) | high


def _parts_of(x: Any) -> list[Any]:
    """Return the bits of the three parts of a float32; their lower halves are zero."""
    high = x.view(np.uint32) & np.uint32(_UPPER)
    rest = x - high.view(np.float32)
    middle = rest.view(np.uint32) + np.uint32(_HALF) & np.uint32(_UPPER)
    return [high, middle, (rest - middle.view(np.float32)).view(np.uint32)]


@overload(round_pairs)
def _round_pairs(x, first, second, distance, words, start):  # type: ignore[no-untyped-def]
    neighbours, separate = _in_registers(True, _emit_rounding), _in_registers(False, _emit_rounding)

    def pair(x, first, second, distance, words, start):  # type: ignore[no-untyped-def]
        if distance == 2:
            neighbours(x, first, second, words, start, 0)
        else:
            separate(x, first, second, words, start, 0)

    return pair


@overload(split_pairs)
def _split_pairs(x, first, second, distance, words, start, part_stride):  # type: ignore[no-untyped-def]
    neighbours, separate = _in_registers(True, _emit_splitting), _in_registers(False, _emit_splitting)

    def split(x, first, second, distance, words, start, part_stride):  # type: ignore[no-untyped-def]
        if distance == 2:
            neighbours(x, first, second, words, start, part_stride)
        else:
            separate(x, first, second, words, start, part_stride)

    return split


def _in_registers(interleaved: bool, emit_parts: Any) -> Any:
    """Return an intrinsic that loads two registers, makes their parts, and joins the upper halves into words."""
    # As 16-bit lanes, the upper halves of the first register are at odd indices; the second register follows.
    upper = [2 * i + 1 for i in range(2 * SIDE)]
    order = upper if interleaved else [index for both in zip(upper[:SIDE], upper[SIDE:], strict=True) for index in both]
    floats, bits, halves = (
        ir.VectorType(kind, count) for kind, count in ((FLOAT, SIDE), (WORD, SIDE), (ir.IntType(16), 2 * SIDE))
    )

    @intrinsic
    def make(typing_context, x, first, second, words, start, part_stride):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source = data_of(context, builder, signature.args[0], arguments[0])
            target = data_of(context, builder, signature.args[3], arguments[3])
            starts = [arguments[1], arguments[2]]
            if interleaved:
                starts[1] = builder.add(arguments[1], int64(SIDE))
            parts = []
            for start in starts:
                pointer = builder.bitcast(builder.gep(source, [start]), floats.as_pointer())
                parts.append(emit_parts(builder, builder.load(pointer, align=4), bits))
            start = arguments[4]
            for both in zip(*parts, strict=True):
                a, b = (builder.bitcast(register, halves) for register in both)
                joined = builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(WORD, 2 * SIDE), order))
                pointer = builder.bitcast(builder.gep(target, [start]), bits.as_pointer())
                builder.store(builder.bitcast(joined, bits), pointer, align=4)
                start = builder.add(start, arguments[5])
            return context.get_dummy_value()

        integer = types.int64
        return types.void(x, integer, integer, words, integer, integer), generate

    return make


def _emit_rounding(builder: Any, value: Any, bits: Any) -> list[Any]:
    """Round each lane as `bfloat16_bits` does; the result is in the upper half."""

    def constant(number: int) -> Any:
        return ir.Constant(bits, [number] * SIDE)

    word = builder.bitcast(value, bits)
    even = builder.and_(builder.lshr(word, constant(16)), constant(1))
    rounded = builder.add(word, builder.add(even, constant(0x7FFF)))
    return [builder.select(builder.fcmp_unordered("uno", value, value), constant(0x7FC00000), rounded)]


def _emit_splitting(builder: Any, value: Any, bits: Any) -> list[Any]:
    """Split each lane as `_parts_of` does."""
    upper = ir.Constant(bits, [_UPPER] * SIDE)
    high = builder.and_(builder.bitcast(value, bits), upper)
    rest = builder.fsub(value, builder.bitcast(high, value.type))
    half = ir.Constant(bits, [_HALF] * SIDE)
    middle = builder.and_(builder.add(builder.bitcast(rest, bits), half), upper)
    low = builder.fsub(rest, builder.bitcast(middle, value.type))
    return [high, middle, builder.bitcast(low, bits)]
