"""The matrix product, from three plain loops to the speed of the processor: a ladder, one idea to a rung.

$c_{ij} = \\sum_k a_{ik} b_{kj}$ is 2 M N K operations on no more than M K + K N + M N numbers, so each number is used
again and again. Every rung does the same operations; what changes is from where the numbers come: memory, a cache, or a
register.

1. `naive`: the definition. Each step reads b one row further on, a new cache line every time. 2. `loop_order`: the two
inner loops change places. Now all reads follow each other and fill whole vector registers. 3. `blocked`: a piece of b
that fits into the cache is used for all rows of a before the next piece is fetched. 4. `packed`: that piece is copied
together first, and four rows are worked on at a time (`minigrad.kernels.gemm.cache_block`). 5. `multiply`: a block of
the result stays in registers (`minigrad.kernels.codegen.microkernel`), both factors are packed. 6. The same on all
threads. 7. The same in tile registers, each float32 taken apart into three bfloat16 numbers
(`minigrad.kernels.codegen.bfloat16_parts`): past
   what the processor's own float32 instructions can do. Where there are such registers, this is what training uses.

benchmarks/matmul.py times every rung against NumPy's BLAS. The blocking is that of Goto and van de Geijn 2008, "Anatomy
of high-performance matrix multiplication", ACM TOMS 34(3).
"""

from __future__ import annotations

import numpy as np

from minigrad.kernels.codegen.amx import TILE_SHAPES, begin_blocks, end_blocks
from minigrad.kernels.codegen.microkernel import multiply_block
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.cpu import Block
from minigrad.kernels.gemm.cache_block import add_product
from minigrad.kernels.gemm.packing import pack_panels
from minigrad.kernels.jit import kernel
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

_DEPTH, _SPLIT_DEPTH = 512, 160  # words of a sum at a time; where each number has three pieces, fewer
_WORDS, _SPLIT_WORDS = 1 << 19, 340_000  # words of the right panels that the second cache (2 MB) holds beside the rest
_LEFT = 8  # left panels that are packed together: what is read of a line of memory is then most of it
_SPARE = 3 * SIDE * SIDE  # words behind the last panel, where packing may write, and before the first line of memory


@kernel
def naive(a: Array, b: Array, c: Array) -> None:
    """Rung 1: c = a @ b as it is defined."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = a.dtype.type(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@kernel
def loop_order(a: Array, b: Array, c: Array) -> None:
    """Rung 2: row k of b, times one number, is added to row i of c."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@kernel
def blocked(a: Array, b: Array, c: Array) -> None:
    """Rung 3: rung 2 on pieces of b of 64 x 512 numbers, which stay in the second cache."""
    c[...] = 0
    for first in range(0, b.shape[1], 512):
        last = min(first + 512, b.shape[1])
        for begin in range(0, a.shape[1], 64):
            end = min(begin + 64, a.shape[1])
            for i in range(a.shape[0]):
                for k in range(begin, end):
                    for j in range(first, last):
                        c[i, j] += a[i, k] * b[k, j]


@kernel
def packed(a: Array, b: Array, c: Array) -> None:
    """Rung 4: pieces of a and b copied together, multiplied four rows by four terms of the sum at a time."""
    left, right = np.empty((96, 128), a.dtype), np.empty((128, 128), a.dtype)
    sums = np.empty((96, 128), a.dtype)
    for row in range(0, a.shape[0], 96):
        m = min(96, a.shape[0] - row)
        for column in range(0, b.shape[1], 128):
            n = min(128, b.shape[1] - column)
            sums[...] = 0
            for begin in range(0, a.shape[1], 128):
                k = min(128, a.shape[1] - begin)
                left[:m, :k] = a[row : row + m, begin : begin + k]
                right[:k, :n] = b[begin : begin + k, column : column + n]
                add_product(left, right, sums, m, k, n)
            for i in range(m):
                for j in range(n):
                    c[row + i, column + j] = sums[i, j]


@kernel
def _multiply_panels(
    a: Array,
    a_across: bool,
    b: Array,
    b_across: bool,
    c: Array,
    shape: tuple[int, int],
    block: tuple[int, int, int, int],
    words: int,
    add: bool,
    start: int,
    stop: int,
) -> None:
    """Set, or add to, a part of c: panels start to stop of its rows if it has more rows than columns, else of columns.

    A group of right panels is packed into the second cache; the left panels pass by, each in the first cache. So the
    rows of c are written along, block by block. Packing is shared with no other thread: what both need, the shorter
    factor, each packs for itself, which costs less than waiting for each other.

    `c` is flat, `shape` its shape, `block` is (rows, columns, chunk, pieces), the sums are `words` words long.
    """
    rows, columns, chunk, pieces = block
    tall, stride = shape[0] > shape[1], shape[1]
    first_row, last_row = (start, stop) if tall else (0, -(-shape[0] // rows))
    first_column, last_column = (0, -(-shape[1] // columns)) if tall else (start, stop)
    most, room_for = (_DEPTH, _WORDS) if pieces < 2 else (_SPLIT_DEPTH, _SPLIT_WORDS)
    parts = -(-words // most)
    depth = -(-words // (parts * chunk)) * chunk  # parts of about the same length
    size = depth * max(pieces, 1)  # words of a panel for each of its rows or columns
    groups = max(1, -(-(last_column - first_column) * columns * size // room_for))
    group = max(1, -(-(last_column - first_column) // groups))
    together = min(_LEFT if a_across or rows * size < 8_192 else 1, last_row - first_row)
    edge = np.empty(rows * columns, np.float32)
    ragged, square = np.empty(2 * SIDE * SIDE, np.float32), np.empty(3 * SIDE * SIDE, np.uint32)
    left_room = np.empty(together * rows * size + _SPARE, np.uint32)
    right_room = np.empty(group * columns * size + _SPARE, np.uint32)
    # Panels begin where a cache line does (64 bytes): a register is then filled from one line, not from parts of two.
    left = left_room[-left_room.ctypes.data % 64 // 4 :]
    right = right_room[-right_room.ctypes.data % 64 // 4 :]
    begin_blocks(TILE_SHAPES)
    for first in range(first_column, last_column, group):
        last = min(first + group, last_column)
        for begin in range(0, words, depth):
            length, adding = min(depth, words - begin), add or begin > 0
            width = length * max(pieces, 1)
            pack_panels(b, b_across, columns, 1, pieces, begin, length, right, first, last, ragged, square)
            for i in range(first_row, last_row):
                number, height = (i - first_row) % together, min(rows, shape[0] - i * rows)
                if number == 0:
                    until = min(i + together, last_row)
                    pack_panels(a, a_across, rows, chunk, pieces, begin, length, left, i, until, ragged, square)
                a_place = number * width * rows
                for panel in range(first, last):
                    b_place, column = (panel - first) * width * columns, panel * columns
                    target, breadth = i * rows * stride + column, min(columns, stride - column)
                    if height == rows and breadth == columns:
                        multiply_block(left, a_place, right, b_place, length, pieces, c, target, stride, adding)
                    else:
                        multiply_block(left, a_place, right, b_place, length, pieces, edge, 0, columns, False)
                        for r in range(height):
                            for j in range(breadth):
                                value, place = edge[r * columns + j], target + r * stride + j
                                c[place] = c[place] + value if adding else value
    end_blocks(TILE_SHAPES)


def _as_rows(x: Array) -> tuple[Array, bool]:
    """Return the array that lies row by row in memory behind x, and whether x is that array transposed."""
    across = x.flags.f_contiguous and not x.flags.c_contiguous
    return np.require(x.T if across else x, requirements=["C", "A", "W"]), across


def multiply(a: Array, b: Array, out: Array, block: Block, *, add: bool = False) -> None:
    """Set `out` to a @ b, or with `add` add it: float32 matrices, in the blocks of FLOAT32, BFLOAT16 or SPLIT.

    Shapes: a (M, K), b (K, N), out (M, N), which must lie row by row; a and b may be transposed views. Every sum is
    made in the same order whatever the number of threads.
    """
    if 0 in (*a.shape, *b.shape):
        if not add:
            out[...] = 0
        return
    (left, left_across), (right, right_across) = _as_rows(a), _as_rows(b.T)
    words = -(-a.shape[1] // 2) if block.pieces else a.shape[1]
    words += -words % block.chunk
    flat, shape, sides = (
        out.reshape(-1),
        (out.shape[0], out.shape[1]),
        (block.rows, block.columns, block.chunk, block.pieces),
    )
    longer = 0 if shape[0] > shape[1] else 1
    over_rows(
        lambda start, stop: _multiply_panels(
            left,
            left_across,
            right,
            right_across,
            flat,
            shape,
            sides,
            words,
            add,
            start,
            stop,
        ),
        -(-shape[longer] // sides[longer]),
        sides[longer] * shape[1 - longer] * a.shape[1] // 8,
    )
