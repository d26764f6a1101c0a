"""Words moved in vector registers: a run of them copied, or a square block transposed.

Transposing reads down the columns of a block, one word at a time. In registers it goes by whole rows: load N rows of N
words, exchange halves, then quarters, and so on between pairs of registers, log2(N) times, and store N columns. For
16 x 16 that is 64 shuffles instead of 256 loads and stores.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from minigrad.kernels.codegen.llvm import WORD, int64, pointer_at
from minigrad.kernels.cpu import FLOAT32, SMALL
from minigrad.kernels.jit import emits, types
from minigrad.typing import Array

SIDE = FLOAT32.lanes if FLOAT32 is not None else 4
"""Rows and columns of a block that is transposed in registers."""


def transpose_block(x: Array, start: int, stride: int, y: Array, y_start: int, y_stride: int) -> None:
    """y[y_start + i * y_stride + j] = x[start + j * stride + i] for i and j below SIDE, in flat arrays.

    The bits are moved as they are, so the arrays may be of two types if their elements have one size. Rows of y are
    written in the order of i.
    """
    rows = [x[start + j * stride : start + j * stride + SIDE].view(y.dtype).copy() for j in range(SIDE)]
    for i in range(SIDE):
        y[y_start + i * y_stride : y_start + i * y_stride + SIDE] = [row[i] for row in rows]


def _copier(width: int) -> Any:
    """Return a function that copies `width` words: y[y_start + i] = x[start + i], in flat arrays."""

    def copy(x: Array, start: int, y: Array, y_start: int) -> None:
        y[y_start : y_start + width] = x[start : start + width].view(y.dtype)

    @emits(copy, types.void, None, types.int64, None, types.int64)
    def _emit_copy(builder: Any, x: Any, start: Any, y: Any, y_start: Any) -> None:
        vector = ir.VectorType(x.data.type.pointee, width)
        copied = builder.load(pointer_at(builder, x.data, start, vector), align=4)
        builder.store(copied, pointer_at(builder, y.data, y_start, vector), align=4)

    return copy


LEFT, RIGHT = (FLOAT32.rows, FLOAT32.columns) if FLOAT32 is not None else (SIDE, SIDE)
"""Rows of a left panel of float32, and columns of a right one."""
copy_left, copy_right, copy_small = (_copier(width) for width in (LEFT, RIGHT, SMALL.rows))
"""Copy one step of a left panel, of a right panel, or of a left factor of `minigrad.kernels.attention.factors`."""


@emits(transpose_block, types.void, None, types.int64, types.int64, None, types.int64, types.int64)
def _emit_transposing(builder: Any, x: Any, start: Any, stride: Any, y: Any, y_start: Any, y_stride: Any) -> None:
    vector = ir.VectorType(x.data.type.pointee, SIDE)

    def line(array: Any, first: Any, stride: Any, number: int) -> Any:
        return pointer_at(builder, array.data, builder.add(first, builder.mul(stride, int64(number))), vector)

    lines = [builder.load(line(x, start, stride, j), align=4) for j in range(SIDE)]
    half = SIDE // 2
    while half:
        for i in range(SIDE):
            if i & half:
                continue
            # Of each pair of lines, the upper halves of the first are exchanged for the lower ones of the second.
            upper = [j if not j & half else SIDE + j - half for j in range(SIDE)]
            lower = [j + half if not j & half else SIDE + j for j in range(SIDE)]
            lines[i], lines[i + half] = (
                builder.shuffle_vector(lines[i], lines[i + half], ir.Constant(ir.VectorType(WORD, SIDE), order))
                for order in (upper, lower)
            )
        half //= 2
    for i, column in enumerate(lines):
        builder.store(column, line(y, y_start, y_stride, i), align=4)
