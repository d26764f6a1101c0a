"""Words moved in vector registers: a few copied, a block turned on its side.

Turning a block means reading down its columns, one number at a time. In registers it goes by whole rows: load N rows of
N numbers, then let them trade halves, quarters, and so on with each other, log2(N) times, and store N columns. For
16 x 16 that is 64 shuffles instead of 256 loads and stores.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from minigrad.kernels.cpu import FLOAT32, SMALL
from minigrad.kernels.jit import intrinsic, overload, types
from minigrad.typing import Array

SIDE = FLOAT32.lanes if FLOAT32 is not None else 4
"""Rows and columns of a block that is turned."""


def transpose_block(x: Array, start: int, stride: int, y: Array, place: int, step: int) -> None:
    """y[place + i * step + j] = x[start + j * stride + i] for i and j below SIDE, in flat arrays of 32-bit words.

    Bits are moved, whatever the arrays take them for.
    Written in the order of i. This body is what plain Python runs (NUMBA_DISABLE_JIT=1).
    """
    rows = [x[start + j * stride : start + j * stride + SIDE].view(y.dtype).copy() for j in range(SIDE)]
    for i in range(SIDE):
        y[place + i * step : place + i * step + SIDE] = [row[i] for row in rows]


def _copier(width: int) -> Any:
    """Return a function that copies `width` words: y[place : place + width] = x[start : start + width], flat arrays."""

    def copy(x: Array, start: int, y: Array, place: int) -> None:
        y[place : place + width] = x[start : start + width].view(y.dtype)

    @intrinsic
    def through_registers(typing_context, x, start, y, place):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(context.get_data_type(signature.args[0].dtype), width)
            source, target = (
                builder.bitcast(builder.gep(data, [arguments[i + 1]]), vector.as_pointer())
                for i in (0, 2)
                for data in [context.make_array(signature.args[i])(context, builder, arguments[i]).data]
            )
            builder.store(builder.load(source, align=4), target, align=4)
            return context.get_dummy_value()

        return types.void(x, types.int64, y, types.int64), generate

    @overload(copy)
    def _copy(x, start, y, place):  # type: ignore[no-untyped-def]
        return lambda x, start, y, place: through_registers(x, start, y, place)  # type: ignore[call-arg]

    return copy


LEFT, RIGHT = (FLOAT32.rows, FLOAT32.columns) if FLOAT32 is not None else (SIDE, SIDE)
copy_left, copy_right, copy_small = (_copier(width) for width in (LEFT, RIGHT, SMALL.rows))
"""Copy as many words as a left panel has rows, a right one columns, or a sliver of `factors` rows."""


@overload(transpose_block)
def _transpose_block(x, start, stride, y, place, step):  # type: ignore[no-untyped-def]
    return lambda x, start, stride, y, place, step: _in_registers(  # type: ignore[call-arg]
        x, start, stride, y, place, step
    )


@intrinsic
def _in_registers(typing_context, x, start, stride, y, place, step):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = context.get_data_type(signature.args[0].dtype)
        source, target = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 3))
        vector = ir.VectorType(word, SIDE)

        def line(pointer: Any, first: Any, distance: Any, number: int) -> Any:
            index = builder.add(first, builder.mul(distance, ir.Constant(ir.IntType(64), number)))
            return builder.bitcast(builder.gep(pointer, [index]), vector.as_pointer())

        lines = [builder.load(line(source, arguments[1], arguments[2], j), align=4) for j in range(SIDE)]
        half = SIDE // 2
        while half:
            for i in range(SIDE):
                if i & half:
                    continue
                # Of each pair of lines, the upper halves of the first trade places with the lower ones of the second.
                upper = [j if not j & half else SIDE + j - half for j in range(SIDE)]
                lower = [j + half if not j & half else SIDE + j for j in range(SIDE)]
                a, b = lines[i], lines[i + half]
                lines[i], lines[i + half] = (
                    builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), SIDE), order))
                    for order in (upper, lower)
                )
            half //= 2
        for i, column in enumerate(lines):
            builder.store(column, line(target, arguments[4], arguments[5], i), align=4)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(x, whole, whole, y, whole, whole), generate
