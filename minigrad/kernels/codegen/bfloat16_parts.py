"""bfloat16 numbers two to a 32-bit word, the first in the lower half, as the processor's instructions want them.

A float32 becomes one such number by rounding, with 8 of its 24 bits of precision left, or three of them by being taken
apart: x = high + middle + low, 8 bits each, and nothing is lost. A product of two numbers is then nine products of
pieces. The three smallest, middle * low, low * middle and low * low, are of the size of float32's own rounding and left
out; where one instruction multiplies sixteen times as many bfloat16 numbers as another float32, six products for one
are still a bargain (Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for
higher-precision computations", arXiv 1904.06376).

`high` is cut off, not rounded, so that it cannot overflow; `middle` is rounded, so that `low` is as often positive as
negative and what is left out averages to nothing. So sums of eight terms or more come out nearer to the truth than
with float32's own instructions, at half the error. Two things are given up, at the ends of what float32 can hold:
the processor takes what is below 2^-126 for zero, so numbers below 2^-108, and products below 2^-100, lose their last
bits; and where float32 gives infinity, because a factor is or because a product is too large, this gives infinity or
NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.bits import bfloat16_bits
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.jit import intrinsic, overload, types
from minigrad.typing import Array

_UPPER, _HALF = 0xFFFF0000, 0x8000


def pair_side(x: Array, first: int, second: int, distance: int, words: Array, place: int) -> None:
    """words[place + i] holds x[first + i * distance] and x[second + i * distance], rounded, for i below SIDE.

    Flat arrays; `distance` is 1, or 2 when the pairs follow each other (second is then first + 1). This body, like the
    next, is for plain Python.
    """
    for i in range(SIDE):
        low, high = bfloat16_bits(x[first + i * distance]), bfloat16_bits(x[second + i * distance])
        words[place + i] = low | high << np.uint32(16)


def split_side(x: Array, first: int, second: int, distance: int, words: Array, place: int, apart: int) -> None:
    """Do the same with the three pieces of each number: the second lie `apart` words behind the first, and so on."""
    for i in range(SIDE):
        pieces = [_pieces(x[place]) for place in (first + i * distance, second + i * distance)]
        for number, (low, high) in enumerate(zip(*pieces, strict=True)):
            words[place + number * apart + i] = low >> np.uint32(16) | high


def _pieces(x: Any) -> list[Any]:
    """Return the bits of the three pieces of a float32; their lower halves are zero."""
    high = x.view(np.uint32) & np.uint32(_UPPER)
    rest = x - high.view(np.float32)
    middle = rest.view(np.uint32) + np.uint32(_HALF) & np.uint32(_UPPER)
    return [high, middle, (rest - middle.view(np.float32)).view(np.uint32)]


@overload(pair_side)
def _pair_side(x, first, second, distance, words, place):  # type: ignore[no-untyped-def]
    along, across = _in_registers(True, _rounded), _in_registers(False, _rounded)

    def pair(x, first, second, distance, words, place):  # type: ignore[no-untyped-def]
        if distance == 2:
            along(x, first, second, words, place, 0)
        else:
            across(x, first, second, words, place, 0)

    return pair


@overload(split_side)
def _split_side(x, first, second, distance, words, place, apart):  # type: ignore[no-untyped-def]
    along, across = _in_registers(True, _taken_apart), _in_registers(False, _taken_apart)

    def split(x, first, second, distance, words, place, apart):  # type: ignore[no-untyped-def]
        if distance == 2:
            along(x, first, second, words, place, apart)
        else:
            across(x, first, second, words, place, apart)

    return split


def _in_registers(interleaved: bool, pieces_of: Any) -> Any:
    """Load 2 * SIDE numbers, make pieces of them, and put the upper halves of two registers together."""
    # Seen as 16-bit numbers, upper halves are at odd places; those of the second register come after 2 * SIDE.
    upper = [2 * i + 1 for i in range(2 * SIDE)]
    order = upper if interleaved else [place for both in zip(upper[:SIDE], upper[SIDE:], strict=True) for place in both]
    numbers, bits, halves = (
        ir.VectorType(kind, count)
        for kind, count in ((ir.FloatType(), SIDE), (ir.IntType(32), SIDE), (ir.IntType(16), 2 * SIDE))
    )

    @intrinsic
    def make(typing_context, x, first, second, words, place, apart):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            target = context.make_array(signature.args[3])(context, builder, arguments[3]).data
            places = [arguments[1], arguments[2]]
            if interleaved:
                places[1] = builder.add(arguments[1], ir.Constant(ir.IntType(64), SIDE))
            pieces = []
            for place in places:
                pointer = builder.bitcast(builder.gep(data, [place]), numbers.as_pointer())
                pieces.append(pieces_of(builder, builder.load(pointer, align=4), bits))
            place = arguments[4]
            for both in zip(*pieces, strict=True):
                a, b = (builder.bitcast(register, halves) for register in both)
                joined = builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), 2 * SIDE), order))
                pointer = builder.bitcast(builder.gep(target, [place]), bits.as_pointer())
                builder.store(builder.bitcast(joined, bits), pointer, align=4)
                place = builder.add(place, arguments[5])
            return context.get_dummy_value()

        whole = types.int64
        return types.void(x, whole, whole, words, whole, whole), generate

    return make


def _rounded(builder: Any, value: Any, bits: Any) -> list[Any]:
    """Round as `bfloat16_bits` does; what counts is the upper half of each."""

    def constant(number: int) -> Any:
        return ir.Constant(bits, [number] * SIDE)

    word = builder.bitcast(value, bits)
    even = builder.and_(builder.lshr(word, constant(16)), constant(1))
    rounded = builder.add(word, builder.add(even, constant(0x7FFF)))
    return [builder.select(builder.fcmp_unordered("uno", value, value), constant(0x7FC00000), rounded)]


def _taken_apart(builder: Any, value: Any, bits: Any) -> list[Any]:
    """Do what `_pieces` does to every number of a register."""
    upper = ir.Constant(bits, [_UPPER] * SIDE)
    high = builder.and_(builder.bitcast(value, bits), upper)
    rest = builder.fsub(value, builder.bitcast(high, value.type))
    half = ir.Constant(bits, [_HALF] * SIDE)
    middle = builder.and_(builder.add(builder.bitcast(rest, bits), half), upper)
    low = builder.fsub(rest, builder.bitcast(middle, value.type))
    return [high, middle, builder.bitcast(low, bits)]
