"""Small matrices packed as factors of `minigrad.kernels.attention.tiles`.

The attention kernels are written once. Whether a factor holds elements, or words of three bfloat16 parts or of one, is
decided by the type of the memory it is packed into (`minigrad.kernels.attention.plan`).
"""

from __future__ import annotations

import numpy as np

from minigrad.kernels.attention.tiles import (
    COLUMNS,
    PAIR_CHUNK,
    ROWS,
    LeftFactor,
    by_kind,
    lane_size,
    packed_steps,
    panel_product,
    round_up,
)
from minigrad.kernels.codegen.microkernel import Panel
from minigrad.kernels.codegen.vector_moves import SIDE, copy_small, transpose_block
from minigrad.kernels.gemm.packing import OVERRUN, Factor, Matrix, PackScratch, PanelLayout, pack_bfloat16
from minigrad.kernels.jit import kernel
from minigrad.typing import Array


def _memory_for_elements(packed: Array, lanes: int, steps: int) -> Array:
    return np.empty(lanes * steps, packed.dtype)


def _memory_for_words(packed: Array, lanes: int, steps: int) -> Array:
    # Packing overruns the last panel, and up to SIDE words are left out, so that the rest begins at a cache line.
    memory = np.empty(round_up(lanes, ROWS) * lane_size(packed, steps) + OVERRUN + SIDE, packed.dtype)
    return memory[-memory.ctypes.data % 64 // 4 :]


memory_for = by_kind(0, _memory_for_elements, _memory_for_words, _memory_for_words, makes_array=True)
"""Return memory for a factor of this many rows (or columns) and steps, of the type of `packed`."""


def _pack_left_elements(source: Matrix, target: LeftFactor, scratch: PackScratch) -> None:
    if source.transposed:
        pack_transposed(source, target)
    else:
        pack_rows(source, target)


def _pack_left_split(source: Matrix, target: LeftFactor, scratch: PackScratch) -> None:
    factor, words = Factor(source, PanelLayout(ROWS, SIDE, 3)), packed_steps(target.elements, target.steps)
    pack_bfloat16(factor, target.rows // ROWS, words, Panel(target.elements, target.start), scratch)


def _pack_left_pairs(source: Matrix, target: LeftFactor, scratch: PackScratch) -> None:
    factor, words = Factor(source, PanelLayout(ROWS, PAIR_CHUNK, 1)), packed_steps(target.elements, target.steps)
    panel = Panel(target.elements.view(np.uint32), target.start)
    pack_bfloat16(factor, target.rows // ROWS, words, panel, scratch)


pack_left = by_kind(1, _pack_left_elements, _pack_left_split, _pack_left_pairs)
"""Pack a left factor, padded with zeros where the source has fewer rows (lanes) or steps than the target."""


def _pack_right_elements(source: Matrix, target: Array, scratch: PackScratch) -> None:
    transpose(source, target)


def _pack_right_split(source: Matrix, target: Array, scratch: PackScratch) -> None:
    words = packed_steps(target, source.steps)
    pack_bfloat16(Factor(source, PanelLayout(COLUMNS, 1, 3)), 1, words, Panel(target, 0), scratch)


def _pack_right_pairs(source: Matrix, target: Array, scratch: PackScratch) -> None:
    words = packed_steps(target, source.steps)
    pack_bfloat16(Factor(source, PanelLayout(COLUMNS, 1, 1)), 1, words, Panel(target.view(np.uint32), 0), scratch)


pack_right = by_kind(1, _pack_right_elements, _pack_right_split, _pack_right_pairs)
"""Pack a right factor; its columns are the COLUMNS lanes of the source."""


def _product_with_elements(
    left: LeftFactor, panel: Array, depth: int, packed: Array, scratch: PackScratch, result: Array, add: bool
) -> None:
    panel_product(left, panel, depth, result, 0, add)


def _product_with_words(
    left: LeftFactor, panel: Array, depth: int, packed: Array, scratch: PackScratch, result: Array, add: bool
) -> None:
    pack_right(Matrix(panel, 0, COLUMNS, True, COLUMNS, depth), packed, scratch)
    panel_product(left, packed, depth, result, 0, add)


product_with_panel = by_kind(3, _product_with_elements, _product_with_words, _product_with_words)
"""Set the panel `result` to the product of a left factor and a panel of `depth` rows, or, with `add`, add the product
to it. Where factors hold elements, the panel is a right factor as it is; otherwise it is packed into `packed` first."""


@kernel
def transpose(source: Matrix, y: Array) -> None:
    """y[j * source.lanes + i] = element (i, j) of the source, whose lines are its lanes."""
    x, start, stride, _, rows, columns = source
    full_rows, full_columns = rows - rows % SIDE, columns - columns % SIDE
    for i in range(0, full_rows, SIDE):
        for j in range(0, full_columns, SIDE):
            transpose_block(x, start + i * stride + j, stride, y, j * rows + i, rows)
    for i in range(rows):
        for j in range(full_columns if i < full_rows else 0, columns):
            y[j * rows + i] = x[start + i * stride + j]


@kernel
def pack_rows(source: Matrix, target: LeftFactor) -> None:
    """Pack a left factor whose rows are the lines of the source, in groups of ROWS; zeros below the last row.

    If a group is not as high as a register, stores overrun it; the next step, or the next group, overwrites the excess.
    """
    x, start, stride, _, count, size = source
    y, y_start, rows, _ = target
    covering = round_up(ROWS, SIDE)
    for first in range(0, rows, ROWS):
        group, place = y_start + first * size, start + first * stride
        in_registers = first + covering <= count and (covering == ROWS or first + ROWS < rows)
        transposed = size - size % SIDE if in_registers else 0
        for i in range(0, ROWS, SIDE):
            for step in range(0, transposed, SIDE):
                transpose_block(x, place + i * stride + step, stride, y, group + step * ROWS + i, ROWS)
        for i in range(ROWS):
            for step in range(transposed, size):
                y[group + step * ROWS + i] = x[place + i * stride + step] if first + i < count else 0


@kernel
def pack_transposed(source: Matrix, target: LeftFactor) -> None:
    """Pack a left factor whose steps are the lines of the source, in groups of ROWS rows.

    The target is padded with zeros after the last step, and after the last row up to a whole group.
    """
    x, start, stride, _, size, count = source
    y, y_start, _, steps = target
    for first in range(0, size, ROWS):
        for step in range(steps):
            place, to = start + step * stride + first, y_start + first * steps + step * ROWS
            if step < count and first + ROWS <= size:
                copy_small(x, place, y, to)
            else:
                for i in range(ROWS):
                    y[to + i] = x[place + i] if step < count and first + i < size else 0
