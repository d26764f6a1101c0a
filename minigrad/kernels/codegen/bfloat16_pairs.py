"""float32 elements turned into words of two bfloat16, rounded or split into three parts.

Rounding a float32 to bfloat16 leaves 8 of its 24 bits of precision. Splitting it into three bfloat16 parts loses
nothing: x = high + middle + low, 8 bits each. A product of two elements is then nine products of parts. The three
smallest, middle * low, low * middle and low * low, are as small as float32's own rounding and are left out. Where a
processor does sixteen times as many multiply-adds of bfloat16 as of float32 in the same time, six products instead of
one are still faster (Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for
higher-precision computations", arXiv 1904.06376).

`high` is truncated, not rounded, so that it cannot overflow; `middle` is rounded, so that `low` is positive as often as
negative and the dropped terms are unbiased. So sums of 32 to about 1,000 terms have roughly half the error that
float32's own instructions give. Sums of fewer than eight terms have more, because of the dropped terms, and sums of
3,000 or more, because the tiles add all terms in one chain.

Two things are lost, at the ends of the range of float32. The processor treats numbers below 2^-126 as zero, so elements
below 2^-103, and products below 2^-98, can lose their last bits. And where float32 gives infinity, because a factor is
infinite or a product is too large, this gives infinity or NaN. Products with such values are computed by other means
(`minigrad.kernels.gemm.panels`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.bits import bfloat16_bits
from minigrad.kernels.codegen.llvm import FLOAT, SHORT, WORD, int64, pointer_at, repeated
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.jit import emits, types
from minigrad.typing import Array

_UPPER, _HALF, _ABSOLUTE = 0xFFFF0000, 0x8000, 0x7FFFFFFF
_FLOATS, _WORDS, _HALVES = ir.VectorType(FLOAT, SIDE), ir.VectorType(WORD, SIDE), ir.VectorType(SHORT, 2 * SIDE)
NO_LARGEST, NO_SMALLEST = np.uint32(0), np.uint32(0xFFFFFFFF)
NO_EXTREMES = np.repeat(np.array([NO_LARGEST, NO_SMALLEST]), SIDE)
"""The extremes of no elements (see `update_extremes`)."""


def round_pairs(x: Array, first: int, second: int, distance: int, words: Array, start: int) -> None:
    """Round x[first + i * distance] and x[second + i * distance] to the word words[start + i], for i below SIDE.

    The arrays are flat. `distance` is 1, or 2 when the pairs follow each other (second is then first + 1).
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


def update_extremes(x: Array, start: int, extremes: Array) -> None:
    """Update extremes with x[start : start + SIDE], lane by lane; both arrays are flat.

    extremes[:SIDE] are the largest bits of absolute values, extremes[SIDE:] the smallest such bits of non-zero elements
    minus 1. The bits of a float32 without its sign, read as an integer, rise with its absolute value, and those of
    infinity and NaN are the highest. Zeros do not count as small: subtracting 1 turns 0 into the highest integer.
    """
    bits = x[start : start + SIDE].view(np.uint32) & np.uint32(_ABSOLUTE)
    extremes[:SIDE] = np.maximum(extremes[:SIDE], bits)
    extremes[SIDE:] = np.minimum(extremes[SIDE:], bits - np.uint32(1))


@emits(update_extremes, types.void, None, types.int64, None)
def _emit_extremes(builder: Any, x: Any, start: Any, extremes: Any) -> None:
    loaded = builder.load(pointer_at(builder, x.data, start, _WORDS), align=4)
    bits = builder.and_(loaded, repeated(_WORDS, _ABSOLUTE))
    for half, order, value in ((0, ">", bits), (1, "<", builder.sub(bits, repeated(_WORDS, 1)))):
        place = pointer_at(builder, extremes.data, int64(half * SIDE), _WORDS)
        before = builder.load(place, align=4)
        builder.store(builder.select(builder.icmp_unsigned(order, value, before), value, before), place, align=4)


@emits(round_pairs, types.void, None, types.int64, types.int64, types.int64, None, types.int64)
def _emit_round_pairs(builder: Any, x: Any, first: Any, second: Any, distance: Any, words: Any, start: Any) -> None:
    _emit_pairs(_emit_rounding, builder, (x, first, second, distance), (words, start, int64(0)))


@emits(split_pairs, types.void, None, types.int64, types.int64, types.int64, None, types.int64, types.int64)
def _emit_split_pairs(builder: Any, x: Any, *places: Any) -> None:
    _emit_pairs(_emit_splitting, builder, (x, *places[:3]), places[3:])


def _emit_pairs(emit_parts: Any, builder: Any, source: tuple[Any, ...], target: tuple[Any, ...]) -> None:
    """Load two registers, make the parts of each, and join their upper halves into words."""
    x, first, second, distance = source
    # As 16-bit lanes, the upper halves of the first register are at odd indices; the second register follows.
    upper = [2 * i + 1 for i in range(2 * SIDE)]
    separate = [index for both in zip(upper[:SIDE], upper[SIDE:], strict=True) for index in both]
    with builder.if_else(builder.icmp_signed("==", distance, int64(2))) as (near, apart):
        for block, order, other in ((near, upper, first), (apart, separate, second)):
            with block:
                words, start, stride = target
                begin = builder.add(other, int64(SIDE)) if order is upper else other
                places = [pointer_at(builder, x.data, each, _FLOATS) for each in (first, begin)]
                parts = [emit_parts(builder, builder.load(place, align=4)) for place in places]
                for both in zip(*parts, strict=True):
                    a, b = (builder.bitcast(register, _HALVES) for register in both)
                    joined = builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(WORD, 2 * SIDE), order))
                    place = pointer_at(builder, words.data, start, _WORDS)
                    builder.store(builder.bitcast(joined, _WORDS), place, align=4)
                    start = builder.add(start, stride)


def _emit_rounding(builder: Any, value: Any) -> list[Any]:
    """Round each lane as `bfloat16_bits` does; the result is in the upper half."""
    word = builder.bitcast(value, _WORDS)
    even = builder.and_(builder.lshr(word, repeated(_WORDS, 16)), repeated(_WORDS, 1))
    rounded = builder.add(word, builder.add(even, repeated(_WORDS, 0x7FFF)))
    return [builder.select(builder.fcmp_unordered("uno", value, value), repeated(_WORDS, 0x7FC00000), rounded)]


def _emit_splitting(builder: Any, value: Any) -> list[Any]:
    """Split each lane as `_parts_of` does."""
    upper = repeated(_WORDS, _UPPER)
    high = builder.and_(builder.bitcast(value, _WORDS), upper)
    rest = builder.fsub(value, builder.bitcast(high, _FLOATS))
    middle = builder.and_(builder.add(builder.bitcast(rest, _WORDS), repeated(_WORDS, _HALF)), upper)
    low = builder.fsub(rest, builder.bitcast(middle, _FLOATS))
    return [high, middle, builder.bitcast(low, _WORDS)]
