"""bfloat16: the upper half of a float32, with the same exponent and 8 bits of precision instead of 24.

NumPy has no such type. Where two of them are needed side by side, they sit in one 32-bit word, the first in the lower
half, as the processor's instructions want them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from minigrad.kernels import intrinsic, kernel, overload, rows_of, types
from minigrad.kernels.moves import SIDE
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
def word_of(first: float, second: float) -> Any:
    """Return the word that holds two numbers, rounded."""
    return np.uint32(bfloat16_bits(first) | np.uint32(bfloat16_bits(second) << np.uint32(16)))


def pair_side(x: Array, first: int, second: int, distance: int, words: Array, place: int) -> None:
    """words[place + i] holds x[first + i * distance] and x[second + i * distance], for i below SIDE; flat arrays.

    `distance` is 1, or 2 when the pairs follow each other (second is then first + 1). This body is for plain Python.
    """
    for i in range(SIDE):
        words[place + i] = word_of(x[first + i * distance], x[second + i * distance])


@overload(pair_side)
def _pair_side(x, first, second, distance, words, place):  # type: ignore[no-untyped-def]
    along, across = _in_registers(True), _in_registers(False)

    def pair(x, first, second, distance, words, place):  # type: ignore[no-untyped-def]
        if distance == 2:
            along(x, first, second, words, place)
        else:
            across(x, first, second, words, place)

    return pair


def _in_registers(interleaved: bool) -> Any:
    @intrinsic
    def pair(typing_context, x, first, second, words, place):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            target = context.make_array(signature.args[3])(context, builder, arguments[3]).data
            if interleaved:
                both = _rounded(builder, data, arguments[1], 2 * SIDE)
                lower, upper = (_every_second(builder, both, start) for start in (0, 1))
            else:
                lower, upper = (_rounded(builder, data, arguments[i], SIDE) for i in (1, 2))
            word = ir.VectorType(ir.IntType(32), SIDE)
            high = builder.and_(upper, ir.Constant(word, [0xFFFF0000] * SIDE))
            result = builder.or_(builder.lshr(lower, ir.Constant(word, [16] * SIDE)), high)
            builder.store(result, builder.bitcast(builder.gep(target, [arguments[4]]), word.as_pointer()), align=4)
            return context.get_dummy_value()

        whole = types.int64
        return types.void(x, whole, whole, words, whole), generate

    return pair


def _rounded(builder: Any, data: Any, start: Any, count: int) -> Any:
    """Load numbers and round them, as `bfloat16_bits` does: what counts is the upper half of each."""
    numbers, bits = ir.VectorType(ir.FloatType(), count), ir.VectorType(ir.IntType(32), count)
    value = builder.load(builder.bitcast(builder.gep(data, [start]), numbers.as_pointer()), align=4)

    def constant(number: int) -> Any:
        return ir.Constant(bits, [number] * count)

    word = builder.bitcast(value, bits)
    even = builder.and_(builder.lshr(word, constant(16)), constant(1))
    rounded = builder.add(word, builder.add(even, constant(0x7FFF)))
    return builder.select(builder.fcmp_unordered("uno", value, value), constant(0x7FC00000), rounded)


def _every_second(builder: Any, words: Any, start: int) -> Any:
    order = ir.Constant(ir.VectorType(ir.IntType(32), SIDE), list(range(start, 2 * SIDE, 2)))
    return builder.shuffle_vector(words, words, order)


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
