"""Small matrices made ready to be factors of `minigrad.kernels.attention.tiles`.

The attention kernels are written once. Whether their factors lie as numbers or as words of three bfloat16 pieces is
decided here, by the type of the numbers and by the processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.attention.tiles import COLUMNS, ROWS, extent, whole, words_of
from minigrad.kernels.codegen.vector_moves import SIDE, copy_small, transpose_block
from minigrad.kernels.cpu import SPLIT
from minigrad.kernels.gemm.packing import pack_words
from minigrad.kernels.jit import kernel, overload, types
from minigrad.typing import Array


def _in_words(x: Any) -> bool:
    return SPLIT is not None and x.dtype == types.float32


def room_for(x: Array, lanes: int, steps: int) -> Array:
    """Return room for a factor of so many rows (or columns) and steps, made of numbers like those of x."""
    return np.empty(lanes * steps, x.dtype)


@overload(room_for)
def _room_for(x, lanes, steps):  # type: ignore[no-untyped-def]
    if not _in_words(x):
        return lambda x, lanes, steps: np.empty(lanes * steps, x.dtype)

    def room(x, lanes, steps):  # type: ignore[no-untyped-def]
        count = whole(lanes, ROWS) * extent(np.empty(0, np.uint32), steps)
        memory = np.empty(count + SIDE, np.uint32)
        return memory[-memory.ctypes.data % 64 // 4 :]  # begins where a line of memory does

    return room


def pack_left(
    x: Array,
    start: int,
    stride: int,
    across: bool,
    count: int,
    size: int,
    rows: int,
    steps: int,
    y: Array,
    place: int,
    edge: Array,
    square: Array,
) -> None:
    """Make a left factor of `rows` rows (whole blocks) and `steps` steps, of which `count` x `size` are known.

    Row i begins at x[start + i * stride]; `across`, the steps do.
    """
    if across:
        columns_as_slivers(x, start, stride, size, steps, count, y, place)
    else:
        rows_as_slivers(x, start, stride, count, rows, steps, y, place)


@overload(pack_left, strict=False)  # annotations are part of a signature
def _pack_left(x, start, stride, across, count, size, rows, steps, y, place, edge, square):  # type: ignore[no-untyped-def]
    if not _in_words(x):
        return pack_left

    def pack(x, start, stride, across, count, size, rows, steps, y, place, edge, square):  # type: ignore[no-untyped-def]
        words, panels = words_of(y, steps), rows // ROWS
        pack_words(x, start, stride, across, count, size, ROWS, SIDE, 3, words, y, place, panels, edge, square)

    return pack


def pack_right(x: Array, start: int, stride: int, steps: int, y: Array, edge: Array, square: Array) -> None:
    """Make a right factor of COLUMNS columns and `steps` steps; column j begins at x[start + j * stride]."""
    turn(x, start, stride, COLUMNS, steps, y, 0, COLUMNS)


@overload(pack_right, strict=False)
def _pack_right(x, start, stride, steps, y, edge, square):  # type: ignore[no-untyped-def]
    if not _in_words(x):
        return pack_right

    def pack(x, start, stride, steps, y, edge, square):  # type: ignore[no-untyped-def]
        words = words_of(y, steps)
        pack_words(x, start, stride, False, COLUMNS, steps, COLUMNS, 1, 3, words, y, 0, 1, edge, square)

    return pack


def as_right(panel: Array, steps: int, y: Array, edge: Array, square: Array) -> Array:
    """Return the right factor that is this panel of `steps` rows: itself if it stays numbers, else made in y."""
    return panel


@overload(as_right, strict=False)
def _as_right(panel, steps, y, edge, square):  # type: ignore[no-untyped-def]
    if not _in_words(panel):
        return as_right

    def pack(panel, steps, y, edge, square):  # type: ignore[no-untyped-def]
        words = words_of(y, steps)
        pack_words(panel, 0, COLUMNS, True, COLUMNS, steps, COLUMNS, 1, 3, words, y, 0, 1, edge, square)
        return y

    return pack


@kernel
def turn(x: Array, start: int, stride: int, rows: int, columns: int, y: Array, place: int, step: int) -> None:
    """y[place + j * step + i] = x[start + i * stride + j] for i < rows and j < columns."""
    whole_rows, whole_columns = rows - rows % SIDE, columns - columns % SIDE
    for i in range(0, whole_rows, SIDE):
        for j in range(0, whole_columns, SIDE):
            transpose_block(x, start + i * stride + j, stride, y, place + j * step + i, step)
    for i in range(rows):
        for j in range(whole_columns if i < whole_rows else 0, columns):
            y[place + j * step + i] = x[start + i * stride + j]


@kernel
def rows_as_slivers(
    x: Array, start: int, stride: int, count: int, height: int, size: int, y: Array, place: int
) -> None:
    """Pack `count` rows of `size` numbers as slivers of rows, zeros up to `height`: a row's numbers are the steps."""
    for first in range(0, height, ROWS):
        for i in range(ROWS):
            for d in range(size):
                known = first + i < count
                y[place + (first * size) + d * ROWS + i] = x[start + (first + i) * stride + d] if known else 0


@kernel
def columns_as_slivers(
    x: Array, start: int, stride: int, count: int, depth: int, size: int, y: Array, place: int
) -> None:
    """Pack `count` rows of `size` numbers as slivers of columns: the rows are the steps, zeros up to `depth`."""
    for first in range(0, whole(size, ROWS), ROWS):
        for step in range(depth):
            source, target = start + step * stride + first, place + first * depth + step * ROWS
            if step < count and first + ROWS <= size:
                copy_small(x, source, y, target)
            else:
                for i in range(ROWS):
                    y[target + i] = x[source + i] if step < count and first + i < size else 0
