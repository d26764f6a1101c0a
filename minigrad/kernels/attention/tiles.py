"""Products of small packed matrices: the tiles of attention.

A left factor is cut into groups of ROWS rows, a right factor has COLUMNS columns. Results are *panels* of unpacked
elements, row by row: [row][COLUMNS]. The columns of a panel are queries, so every step of a softmax of the scores (keys
x queries) is done to whole rows of a panel at once, in vector registers. Packed factors
(`minigrad.kernels.attention.factors`) hold

* elements, for vector registers and plain loops: a left one as [row // ROWS][step][row % ROWS], a right one as a panel,
  so that a result is the right factor of the next product as it is;
* words of three bfloat16 parts, where tile registers multiply float32 (`minigrad.kernels.gemm.packing`);
* words of one part, where factors are rounded to bfloat16 and the processor multiplies it.

The type of a factor's memory says which: that of the elements, uint32 for three parts, int32 for one.

Factors are padded with zeros to whole blocks. All arrays are flat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minigrad.kernels.codegen.microkernel import (
    Panel,
    Target,
    multiply_block,
    multiply_plainly,
    small_bfloat16_block,
    small_block,
    split_block,
)
from minigrad.kernels.cpu import FLOAT32, SMALL, SMALL_BFLOAT16, SMALL_VECTORS
from minigrad.kernels.jit import kernel, overload, types
from minigrad.typing import Array

ROWS, COLUMNS = SMALL.rows, SMALL.columns
KEYS = 256  # keys of a tile: a multiple of COLUMNS
_CHUNK, _PARTS, _VECTOR_ROWS = SMALL.chunk, SMALL.parts, SMALL_VECTORS.rows
PAIR_CHUNK = 1 if SMALL_BFLOAT16 is None else SMALL_BFLOAT16.chunk


class Tile(NamedTuple):
    """Some keys of a sequence: `begin` to `begin + num_keys`."""

    begin: int
    num_keys: int


class LeftFactor(NamedTuple):
    """A packed left factor; it begins at elements[start]."""

    elements: Array
    start: int
    rows: int  # a multiple of ROWS
    steps: int


@kernel
def round_up(number: int, multiple: int) -> int:
    """Return `number` rounded up to a multiple of `multiple`."""
    return -(-number // multiple) * multiple


@kernel
def plain_block(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    """Set ROWS x COLUMNS elements of the target to the product of `depth` steps, or, with `add`, add the product to it.

    The innermost loop is along a row, so that the compiler finds vector instructions for it, and takes four steps, so
    that an element of the target is loaded and stored once for four multiply-adds. They are added in order. Its length
    is that of the row: a loop of constant length would be unrolled into single elements before.
    """
    a, b, c = left.elements, right.elements, target.elements
    for i in range(ROWS):
        row = c[target.start + i * target.stride : target.start + i * target.stride + COLUMNS]
        if not add:
            row[:] = c.dtype.type(0)
        for step in range(0, depth - 3, 4):
            place, line = left.start + step * ROWS + i, b[right.start + step * COLUMNS :]
            x0, x1, x2, x3 = a[place], a[place + ROWS], a[place + 2 * ROWS], a[place + 3 * ROWS]
            for j in range(row.size):
                total = row[j] + x0 * line[j]
                total += x1 * line[j + COLUMNS]
                total += x2 * line[j + 2 * COLUMNS]
                row[j] = total + x3 * line[j + 3 * COLUMNS]
        for step in range(depth - depth % 4, depth):
            factor, line = a[left.start + step * ROWS + i], b[right.start + step * COLUMNS :]
            for j in range(row.size):
                row[j] += factor * line[j]


def by_kind(
    place: int,
    of_elements: Callable[..., Any],
    of_split: Callable[..., Any],
    of_pairs: Callable[..., Any],
    makes_array: bool = False,
) -> Any:
    """Return a function that is one of three, by what an argument, or its first field, holds.

    It is the first one for elements, the second for words of three parts, and the third for words of one.
    `makes_array` says whether it makes an array.
    """

    def choose(*arguments: Any) -> Callable[..., Any]:  # the compiler calls it with their types
        found = arguments[place]
        memory = found if hasattr(found, "dtype") else found[0]
        if memory.dtype in (np.uint32, types.uint32):
            return of_split
        return of_pairs if memory.dtype in (np.int32, types.int32) else of_elements

    def function(*arguments: Any) -> Any:
        return choose(*arguments)(*arguments)

    overload(function, strict=False, makes_array=makes_array)(choose)
    return function


def _steps(factor: Array, steps: int) -> int:
    return steps


def _split_words(factor: Array, steps: int) -> int:
    return -(-steps // (2 * _CHUNK)) * _CHUNK


def _pairs(factor: Array, steps: int) -> int:
    return -(-steps // (2 * PAIR_CHUNK)) * PAIR_CHUNK


packed_steps = by_kind(0, _steps, _split_words, _pairs)
"""Return the packed length of a sum of `steps` steps: elements, or words of two steps each."""
lane_size = by_kind(0, _steps, lambda factor, steps: -(-steps // (2 * _CHUNK)) * _CHUNK * _PARTS, _pairs)
"""Return how many elements of `factor` one row or column of `steps` steps takes."""


def block_product(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    """Do what `plain_block` does, in registers where there are any; words are multiplied as the elements they hold."""
    steps = packed_steps(left.elements, depth)
    if left.elements.dtype == np.uint32:
        multiply_block(left, right, steps, _PARTS, target, add)
    elif left.elements.dtype == np.int32:
        assert SMALL_BFLOAT16 is not None
        a, b = (Panel(each.elements.view(np.uint32), each.start) for each in (left, right))
        multiply_plainly(SMALL_BFLOAT16, a, b, steps, target, add)
    else:
        plain_block(left, right, depth, target, add)


@overload(block_product, strict=False)
def _block_product(left, right, depth, target, add):  # type: ignore[no-untyped-def]
    if left[0].dtype == types.uint32:
        return _split_block
    if left[0].dtype == types.int32:
        return _pair_block
    if left[0].dtype == types.float32 and FLOAT32 is not None:
        return _vector_blocks
    return lambda left, right, depth, target, add: plain_block(left, right, depth, target, add)


def _split_block(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    split_block(left, right, packed_steps(left.elements, depth), target, add)


def _pair_block(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    small_bfloat16_block(left, right, packed_steps(left.elements, depth), target, add)


def _vector_blocks(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    for i in range(0, ROWS, _VECTOR_ROWS):
        rows = Target(target.elements, target.start + i * target.stride, target.stride)
        small_block(Panel(left.elements, left.start + i), right, depth, rows, add)


@kernel
def panel_product(left: LeftFactor, right: Array, depth: int, result: Array, start: int, add: bool) -> None:
    """Set the panel result[start:] to the product of all rows of `left` and COLUMNS columns; with `add`, add to it.

    The sum is over the first `depth` (at least 1) of the steps of the left factor.
    """
    stride = lane_size(left.elements, left.steps)
    for i in range(0, left.rows, ROWS):
        panel, target = Panel(left.elements, left.start + i * stride), Target(result, start + i * COLUMNS, COLUMNS)
        block_product(panel, Panel(right, 0), depth, target, add)
