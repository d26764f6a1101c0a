"""Words moved in vector registers: a run of them copied, or a square block transposed.

Transposing reads down the columns of a block, one word at a time. In registers it goes by whole rows: load N rows of N
words, exchange halves, then quarters, and so on between pairs of registers, log2(N) times, and store N columns. For
16 x 16 that is 64 shuffles instead of 256 loads and stores.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from minigrad.kernels.codegen.llvm import WORD, data_of, int64, pointer_at
from minigrad.kernels.cpu import FLOAT32, SMALL
from minigrad.kernels.jit import intrinsic, overload, types
from minigrad.typing import Array

SIDE = FLOAT32.lanes if FLOAT32 is not None else 4
"""Rows and columns of a block that is transposed in registers."""


def transpose_block(x: Array, start: int, stride: int, y: Array, y_start: int, y_stride: int) -> None:
    """y[y_start + i * y_stride + j] = x[start + j * stride + i] for i and j below SIDE, in flat arrays.

    The bits are moved as they are, so the arrays may be of two types if their elements have one size. Rows of y are
    written in the order of i. Plain Python runs this body (NUMBA_DISABLE_JIT=1).
    """
    rows = [x[start + j * stride : start + j * stride + SIDE].view(y.dtype).copy() for j in range(SIDE)]
    for i in range(SIDE):
        y[y_start + i * y_stride : y_start + i * y_stride + SIDE] = [row[i] for row in rows]


def _copier(width: int) -> Any:
    """Return a function that copies `width` words: y[y_start + i] = x[start + i], in flat arrays."""

    def copy(x: Array, start: int, y: Array, y_start: int) -> None:
        y[y_start : y_start + width] = x[start : start + width].view(y.dtype)

    @intrinsic
    def through_registers(typing_context, x, start, y, y_start):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(context.get_data_type(signature.args[0].dtype), width)
            source, target = (
                pointer_at(
                    builder, data_of(context, builder, signature.args[i], arguments[i]), arguments[i + 1], vector
                )
                for i in (0, 2)
            )
            builder.store(builder.load(source, align=4), target, align=4)
            return context.get_dummy_value()

        return types.void(x, types.int64, y, types.int64), generate

    @overload(copy)
    def _copy(x, start, y, y_start):  # type: ignore[no-untyped-def]
        return lambda x, start, y, y_start: through_registers(x, start, y, y_start)  # type: ignore[call-arg]

    return copy


LEFT, RIGHT = (FLOAT32.rows, FLOAT32.columns) if FLOAT32 is not None else (SIDE, SIDE)
"""Rows of a left panel of float32, and columns of a right one."""
copy_left, copy_right, copy_small = (_copier(width) for width in (LEFT, RIGHT, SMALL.rows))
"""Copy one step of a left panel, of a right panel, or of a left factor of `minigrad.kernels.attention.factors`."""


@overload(transpose_block)
def _transpose_block(x, start, stride, y, y_start, y_stride):  # type: ignore[no-untyped-def]
    return lambda x, start, stride, y, y_start, y_stride: _in_registers(  # type: ignore[call-arg]
        x, start, stride, y, y_start, y_stride
    )


@intrinsic
def _in_registers(typing_context, x, start, stride, y, y_start, y_stride):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = (data_of(context, builder, signature.args[i], arguments[i]) for i in (0, 3))
        vector = ir.VectorType(context.get_data_type(signature.args[0].dtype), SIDE)

        def line(pointer: Any, first: Any, stride: Any, number: int) -> Any:
            return pointer_at(builder, pointer, builder.add(first, builder.mul(stride, int64(number))), vector)

        lines = [builder.load(line(source, arguments[1], arguments[2], j), align=4) for j in range(SIDE)]
        half = SIDE // 2
        while half:
            for i in range(SIDE):
                if i & half:
                    continue
                # Of each pair of lines, the upper halves of the first are exchanged for the lower ones of the second.
                upper = [j if not j & half else SIDE + j - half for j in range(SIDE)]
                lower = [j + half if not j & half else SIDE + j for j in range(SIDE)]
                a, b = lines[i], lines[i + half]
                lines[i], lines[i + half] = (
                    builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(WORD, SIDE), order))
                    for order in (upper, lower)
                )
            half //= 2
        for i, column in enumerate(lines):
            builder.store(column, line(target, arguments[4], arguments[5], i), align=4)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(x, integer, integer, y, integer, integer), generate
