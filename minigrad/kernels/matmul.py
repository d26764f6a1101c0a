"""The matrix product, from three plain loops to the speed of the processor: a ladder, one idea to a rung.

$c_{ij} = \\sum_k a_{ik} b_{kj}$ is 2 M N K operations on no more than M K + K N + M N numbers, so each number is used
again and again. Every rung does the same operations; what changes is from where the numbers come: memory, a cache, or a
register.

1. `naive`: the definition. Each step reads b one row further on, a new cache line every time.
2. `loop_order`: the two inner loops change places. Now all reads follow each other and fill whole vector registers.
3. `blocked`: a piece of b that fits into the cache is used for all rows of a before the next piece is fetched.
4. `packed`: that piece is copied together first, and four rows are worked on at a time (`minigrad.kernels.tiles`).
5. `blocks`: a block of the result stays in registers (`minigrad.kernels.block_product`), both factors are packed.
6. `multiply`: the same on all threads. This is what training uses when it is chosen as the backend of all products.

benchmarks/matmul.py times every rung against NumPy's BLAS. The blocking is that of Goto and van de Geijn 2008, "Anatomy
of high-performance matrix multiplication", ACM TOMS 34(3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.kernels import kernel
from minigrad.kernels.block_product import TILE_SHAPES, begin_blocks, end_blocks, multiply_block
from minigrad.kernels.packing import pack_bfloat16, pack_float32
from minigrad.kernels.processor import Block
from minigrad.kernels.threads import over_rows
from minigrad.kernels.tiles import add_product, load_rows

Array = NDArray[Any]

_DEPTH = 256  # words of the sum at a time: so much of a right panel fits into the first cache,
_ROWS = 240  # and so many rows of the left factor into the second


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
                load_rows(a, row, m, 1, begin, k, left)
                load_rows(b, begin, k, 1, column, n, right)
                add_product(left, right, sums, m, k, n)
            for i in range(m):
                for j in range(n):
                    c[row + i, column + j] = sums[i, j]


@kernel
def _multiply_panels(
    a: Array,
    b: Array,
    c: Array,
    shape: tuple[int, int],
    rows: int,
    columns: int,
    depth: int,
    add: bool,
    shapes: Array,
    start: int,
    stop: int,
) -> None:
    """Multiply left panels start to stop with all right panels, and set or add to their rows of c (flat).

    A piece of a right panel stays in the first cache while the left panels of a group pass by; these stay in the
    second. `shape` is that of c; `depth`, in words, is cut into pieces.
    """
    edge = np.empty(rows * columns, np.float32)
    stride, total = shape[1], a.shape[1] // rows
    group = max(1, _ROWS // rows)
    begin_blocks(shapes)
    for first in range(start, stop, group):
        for begin in range(0, total, depth):
            piece, adding = min(depth, total - begin), add or begin > 0
            for panel in range(b.shape[0]):
                column = panel * columns
                width = min(columns, shape[1] - column)
                for i in range(first, min(first + group, stop)):
                    a_place, b_place = i * a.shape[1] + begin * rows, panel * b.shape[1] + begin * columns
                    height = min(rows, shape[0] - i * rows)
                    if height == rows and width == columns:
                        place = i * rows * stride + column
                        multiply_block(a.reshape(-1), a_place, b.reshape(-1), b_place, piece, c, place, stride, adding)
                        continue
                    multiply_block(a.reshape(-1), a_place, b.reshape(-1), b_place, piece, edge, 0, columns, False)
                    for r in range(height):
                        place = (i * rows + r) * stride + column
                        for j in range(width):
                            value = edge[r * columns + j]
                            c[place + j] = c[place + j] + value if adding else value
    end_blocks(shapes)


def _panels(x: Array, across: bool, lanes: int, block: Block) -> Array:
    """Return room for the packed panels of a factor."""
    rows, depth = x.shape[::-1] if across else x.shape
    if block.kind == "float32":
        return np.empty((-(-rows // lanes), depth * lanes), np.float32)
    words = -(-depth // (2 * block.chunk)) * block.chunk
    return np.empty((-(-rows // lanes), words * lanes), np.uint32)


def _pack(x: Array, across: bool, lanes: int, chunk: int, packed: Array, start: int, stop: int) -> None:
    if packed.dtype == np.float32:
        pack_float32(x, across, lanes, packed, start, stop)
    else:
        pack_bfloat16(x, across, lanes, chunk, packed, start, stop)


def _as_rows(x: Array) -> tuple[Array, bool]:
    """Return the array that lies row by row in memory behind x, and whether x is that array transposed."""
    across = x.flags.f_contiguous and not x.flags.c_contiguous
    rows = np.ascontiguousarray(x.T if across else x)
    return (rows if rows.flags.writeable else rows.copy()), across


def multiply(a: Array, b: Array, out: Array, block: Block, *, add: bool = False) -> None:
    """Set `out` to a @ b, or with `add` add it: float32 matrices, multiplied in the blocks of `FLOAT32` or `BFLOAT16`.

    Shapes: a (M, K), b (K, N), out (M, N), which must lie row by row; a and b may be transposed views. Every sum is
    made in the same order whatever the number of threads.
    """
    if 0 in (*a.shape, *b.shape):
        if not add:
            out[...] = 0
        return
    (left, left_across), (right, right_across) = _as_rows(a), _as_rows(b.T)
    left_panels = _panels(left, left_across, block.rows, block)
    right_panels = _panels(right, right_across, block.columns, block)
    count = len(left_panels)

    def pack(start: int, stop: int) -> None:
        # One range for the panels of both factors, so that they are packed with one dispatch.
        if start < count:
            _pack(left, left_across, block.rows, block.chunk, left_panels, start, min(stop, count))
        if stop > count:
            _pack(right, right_across, block.columns, 1, right_panels, max(start - count, 0), stop - count)

    over_rows(pack, count + len(right_panels), a.shape[1] * block.columns)
    flat, shape = out.reshape(-1), (out.shape[0], out.shape[1])
    depth = _DEPTH if block.kind == "float32" else 2 * _DEPTH
    over_rows(
        lambda start, stop: _multiply_panels(
            left_panels, right_panels, flat, shape, block.rows, block.columns, depth, add, TILE_SHAPES, start, stop
        ),
        count,
        block.rows * out.shape[1] * a.shape[1] // 8,
    )
