"""Products of small matrices that are packed already: the tiles of attention, and what packs them.

Everything has one of two layouts, so that one product's result is the next one's factor as it stands:

* *slivers* (a left factor): ROWS rows at a time, step by step: [row // ROWS][step][row % ROWS].
* *panels* (a right factor, or a result): COLUMNS columns at a time, row by row: [column // COLUMNS][row][column %
  COLUMNS]. With COLUMNS queries to a panel, everything that a softmax does to scores (keys x queries) is done to whole
  rows of a panel at once, in vector registers.

Sides are filled up with zeros to whole slivers and panels. All arrays are flat.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from minigrad.kernels import kernel, overload, types
from minigrad.kernels.block_product import small_block
from minigrad.kernels.dropout import draw_mask
from minigrad.kernels.moves import SIDE, copy_small, transpose_block
from minigrad.kernels.processor import FLOAT32, SMALL

Array = NDArray[Any]

ROWS, COLUMNS = SMALL.rows, SMALL.columns
KEYS = 128  # keys of a tile: a multiple of COLUMNS


@kernel
def whole(number: int, side: int) -> int:
    """Return `number` rounded up to a multiple of `side`."""
    return -(-number // side) * side


@kernel
def plain_block(a: Array, a_start: int, b: Array, b_start: int, depth: int, c: Array, c_start: int, add: bool) -> None:
    """c[ROWS, COLUMNS] = (or +=) the product of a sliver and a panel, in plain loops."""
    for i in range(ROWS):
        for j in range(COLUMNS):
            total = c[c_start + i * COLUMNS + j] if add else c.dtype.type(0)
            for step in range(depth):
                total += a[a_start + step * ROWS + i] * b[b_start + step * COLUMNS + j]
            c[c_start + i * COLUMNS + j] = total


def sliver_product(
    a: Array, a_start: int, b: Array, b_start: int, depth: int, c: Array, c_start: int, add: bool
) -> None:
    """Do what `plain_block` does: in vector registers for float32, if there are any; this body is for plain Python."""
    plain_block(a, a_start, b, b_start, depth, c, c_start, add)


@overload(sliver_product)
def _sliver_product(a, a_start, b, b_start, depth, c, c_start, add):  # type: ignore[no-untyped-def]
    if a.dtype == types.float32 and FLOAT32 is not None:
        return lambda a, a_start, b, b_start, depth, c, c_start, add: small_block(
            a, a_start, b, b_start, depth, c, c_start, COLUMNS, add
        )
    return lambda a, a_start, b, b_start, depth, c, c_start, add: plain_block(
        a, a_start, b, b_start, depth, c, c_start, add
    )


@kernel
def panel_product(
    a: Array, a_start: int, steps: int, rows: int, b: Array, b_start: int, depth: int, c: Array, c_start: int, add: bool
) -> None:
    """Set, or add to, one panel of c: the product of `rows` rows (whole slivers) of a and a panel of b.

    The sum is over `depth` (at least 1) of the `steps` that each sliver of a is long.
    """
    for i in range(0, rows, ROWS):
        sliver_product(a, a_start + i * steps, b, b_start, depth, c, c_start + i * COLUMNS, add)


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


@kernel
def load_queries(x: Array, first: int, row: int, count: int, group: int, column: int, size: int, y: Array) -> None:
    """Copy `count` of a group's query rows, and zeros up to COLUMNS: row r is position r // group, head r % group.

    x is (positions, width); `first` is the sequence's first position, `row` the first query row wanted.
    """
    for r in range(count):
        position, head = first + (row + r) // group, (row + r) % group
        for d in range(size):
            y[r * size + d] = x[position, column + head * size + d]
    y[count * size : COLUMNS * size] = 0


@kernel
def draw_panel(
    mask: Array,
    drawn: Array,
    n: int,
    first: int,
    row: int,
    count: int,
    group: int,
    head: int,
    kv_heads: int,
    begin: int,
    words: Array,
    threshold: int,
    kept: float,
) -> None:
    """Draw what each probability of a tile (n keys x COLUMNS queries) is multiplied by; `drawn` is room to work in."""
    for r in range(COLUMNS):
        place = (first + (row + r) // group) * kv_heads * group + head * group + (row + r) % group
        if r < count:
            draw_mask(drawn, n, begin // 4, place, words, threshold, kept)
        for i in range(n):
            mask[i * COLUMNS + r] = drawn[i] if r < count else 0
