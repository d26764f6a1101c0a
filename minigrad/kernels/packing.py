"""Packing: a factor of a matrix product copied into the order in which the innermost loop will read it.

A matrix is cut into panels of `lanes` neighbouring rows (of the left factor) or columns (of the right one). Within a
panel the numbers of one step of the sum lie together, so the loop reads memory from front to back, whether the matrix
came as it is or transposed, and the processor fetches ahead by itself. What is missing in the last panel is zero.

`across` says how the matrix lies in memory: False when the numbers of one row (column) follow each other, as in
x[lane, step]; True when those of one step do, as in x[step, lane].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from minigrad.kernels import intrinsic, kernel, overload, rows_of, types
from minigrad.kernels.threads import over_rows

Array = NDArray[Any]


@kernel
def pack_float32(x: Array, across: bool, lanes: int, packed: Array, start: int, stop: int) -> None:
    """Copy panels start to stop: packed[panel, step * lanes + lane]."""
    rows, depth = (x.shape[1], x.shape[0]) if across else (x.shape[0], x.shape[1])
    zero = packed.dtype.type(0)
    for panel in range(start, stop):
        first = panel * lanes
        count = min(lanes, rows - first)
        if across:
            for step in range(depth):
                for lane in range(count):
                    packed[panel, step * lanes + lane] = x[step, first + lane]
        else:
            for lane in range(count):
                for step in range(depth):
                    packed[panel, step * lanes + lane] = x[first + lane, step]
        for lane in range(count, lanes):
            for step in range(depth):
                packed[panel, step * lanes + lane] = zero


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
    """Round a float32 to bfloat16, to the nearest and ties to even; return its 16 bits in a uint32.

    bfloat16 is the upper half of a float32: the same exponent, 8 bits of precision instead of 24.
    """
    bits = bits_of(x)
    # Half a unit of the last place that stays, minus one if that place is even: ties then go to even.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return rounded if x == x else np.uint32(0x7FC0)  # rounding would turn some NaN into infinity


@kernel
def pack_bfloat16(x: Array, across: bool, lanes: int, chunk: int, packed: Array, start: int, stop: int) -> None:
    """Round and copy panels start to stop, two steps to a word: packed[panel, (step // 2 // chunk, lane, rest)]."""
    rows, depth = (x.shape[1], x.shape[0]) if across else (x.shape[0], x.shape[1])
    words, high, none = packed.shape[1] // lanes, np.uint32(16), np.uint32(0)
    for panel in range(start, stop):
        first = panel * lanes
        count = min(lanes, rows - first)
        for begin in range(0, words, chunk):
            place = begin * lanes
            if across:
                for rest in range(chunk):
                    step = 2 * (begin + rest)
                    if step + 1 < depth:
                        for lane in range(count):
                            low, up = bfloat16_bits(x[step, first + lane]), bfloat16_bits(x[step + 1, first + lane])
                            packed[panel, place + lane * chunk + rest] = low | (up << high)
                    elif step < depth:
                        for lane in range(count):
                            packed[panel, place + lane * chunk + rest] = bfloat16_bits(x[step, first + lane])
                    else:
                        for lane in range(count):
                            packed[panel, place + lane * chunk + rest] = none
            else:
                whole = max(0, min(chunk, depth // 2 - begin))
                for lane in range(count):
                    for rest in range(whole):
                        step = 2 * (begin + rest)
                        low, up = bfloat16_bits(x[first + lane, step]), bfloat16_bits(x[first + lane, step + 1])
                        packed[panel, place + lane * chunk + rest] = low | (up << high)
                    for rest in range(whole, chunk):
                        step = 2 * (begin + rest)
                        last = bfloat16_bits(x[first + lane, step]) if step < depth else none
                        packed[panel, place + lane * chunk + rest] = last
            for lane in range(count, lanes):
                for rest in range(chunk):
                    packed[panel, place + lane * chunk + rest] = none


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
