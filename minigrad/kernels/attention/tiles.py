"""Products of small matrices that are packed already: the tiles of attention.

A left factor is cut into groups of ROWS rows, a right factor has COLUMNS columns. Results are *panels* of plain
numbers, row by row: [row][COLUMNS]. With COLUMNS queries to a panel, everything that a softmax does to scores (keys x
queries) is done to whole rows of a panel at once, in vector registers. `minigrad.kernels.attention.operands` makes
factors; they lie

* as numbers, for vector registers and plain loops: a left one in *slivers* [row // ROWS][step][row % ROWS], a right one
  as a panel, so that a result is the next product's right factor as it stands;
* as words of three bfloat16 pieces, where float32 is multiplied by tile registers (`minigrad.kernels.gemm.packing`).

Sides are filled up with zeros to whole blocks. All arrays are flat.
"""

from __future__ import annotations

import numpy as np

from minigrad.kernels.codegen.microkernel import small_block
from minigrad.kernels.cpu import FLOAT32, SMALL
from minigrad.kernels.jit import kernel, overload, types
from minigrad.kernels.rowwise.dropout import draw_mask
from minigrad.typing import Array

ROWS, COLUMNS = SMALL.rows, SMALL.columns
KEYS = 256  # keys of a tile: a multiple of COLUMNS
_CHUNK, _PIECES = SMALL.chunk, SMALL.pieces


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


def block_product(
    a: Array, a_start: int, b: Array, b_start: int, depth: int, c: Array, c_start: int, add: bool
) -> None:
    """Do what `plain_block` does: in registers for float32, if there are any; this body is for plain Python."""
    plain_block(a, a_start, b, b_start, depth, c, c_start, add)


@overload(block_product)
def _block_product(a, a_start, b, b_start, depth, c, c_start, add):  # type: ignore[no-untyped-def]
    in_vectors = a.dtype == types.float32 and FLOAT32 is not None and SMALL.kind == "float32"
    if in_vectors or a.dtype == types.uint32:
        return lambda a, a_start, b, b_start, depth, c, c_start, add: small_block(
            a, a_start, b, b_start, words_of(a, depth), c, c_start, COLUMNS, add
        )
    return lambda a, a_start, b, b_start, depth, c, c_start, add: plain_block(
        a, a_start, b, b_start, depth, c, c_start, add
    )


def words_of(factor: Array, steps: int) -> int:
    """Return over how many words a sum of `steps` steps goes: two steps each if they are words of bfloat16."""
    return steps


@overload(words_of)
def _words_of(factor, steps):  # type: ignore[no-untyped-def]
    if factor.dtype == types.uint32:
        return lambda factor, steps: -(-steps // (2 * _CHUNK)) * _CHUNK
    return lambda factor, steps: steps


def extent(factor: Array, steps: int) -> int:
    """Return how many elements of `factor` so many steps of one row or column take."""
    return steps


@overload(extent)
def _extent(factor, steps):  # type: ignore[no-untyped-def]
    if factor.dtype == types.uint32:
        return lambda factor, steps: words_of(factor, steps) * _PIECES
    return lambda factor, steps: steps


@kernel
def panel_product(
    a: Array, a_start: int, steps: int, rows: int, b: Array, b_start: int, depth: int, c: Array, c_start: int, add: bool
) -> None:
    """Set, or add to, one panel of c: the product of `rows` rows (whole blocks) of a and COLUMNS columns of b.

    The sum is over `depth` (at least 1) of the `steps` that each row of a is long.
    """
    for i in range(0, rows, ROWS):
        block_product(a, a_start + i * extent(a, steps), b, b_start, depth, c, c_start + i * COLUMNS, add)


@kernel
def hide(scores: Array, n: int, seen: Array, begin: int) -> None:
    """Set the scores (n keys x COLUMNS queries) of keys from seen[j] on to -inf; `seen` rises, so few rows need it."""
    for i in range(min(max(seen[0] - begin, 0), n), n):
        for j in range(COLUMNS):
            if begin + i >= seen[j]:
                scores[i * COLUMNS + j] = -np.inf


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
