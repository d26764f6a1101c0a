"""The matrix product in blocks that stay in registers, both factors packed.

A group of right panels is packed into the second-level cache; the left panels are packed one after another, each into
the first-level cache, and multiplied with all of the group. The blocking is that of Goto and van de Geijn 2008,
"Anatomy of high-performance matrix multiplication", ACM TOMS 34(3). `minigrad.kernels.gemm.ladder` leads up to it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from minigrad.kernels.codegen.amx import TILE_CONFIGURATION, configure_tiles, release_tiles
from minigrad.kernels.codegen.bfloat16_pairs import NO_EXTREMES
from minigrad.kernels.codegen.microkernel import Panel, Target, multiply_block
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.cpu import Block
from minigrad.kernels.gemm.packing import (
    OVERRUN,
    Factor,
    Matrix,
    PackScratch,
    PanelLayout,
    Section,
    pack_panels,
    pack_scratch,
)
from minigrad.kernels.jit import allocating, kernel
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

_DEPTH, _SPLIT_DEPTH = 512, 160  # words of a sum at a time; fewer where each element has three parts
# Words of right panels that are packed at a time. Processors with tile registers have second-level caches of 2 MB. On
# others 1 MB of panels stays in the second-level cache, or, if that is smaller, in the part of the third-level cache
# that belongs to a core; smaller groups cost more than they save, as each packs the left factor again.
_WORDS, _TILE_WORDS, _SPLIT_WORDS = 1 << 18, 1 << 19, 340_000
_LEFT = 8  # left panels packed together, so that whole cache lines of a transposed matrix are used
_LEAST_ELEMENT, _LEAST_TERM, _LARGEST_SUM = 2.0**-103, 2.0**-98, 2.0**127  # see `is_as_close_as_float32`
_SPARE = OVERRUN + 16  # words after the last panel, for stores that overrun it and for alignment to 64 bytes


class BlockShape(NamedTuple):
    """The sizes of a `Block`, as the loops read them."""

    rows: int
    columns: int
    chunk: int
    parts: int


class Extremes(NamedTuple):
    """The absolute values of a factor's elements: the largest, and the smallest that is not zero (0 if there is none).

    Where an element is infinite or NaN, the largest is too. Known only of factors split into three parts; else all 0.
    """

    largest: float
    smallest: float


class Blocking(NamedTuple):
    """How a product is cut to fit the caches."""

    words: int  # of a lane of the factors, altogether
    depth: int  # words of a lane that are packed at a time
    group: int  # right panels that are packed at a time
    together: int  # left panels that are packed at a time


@kernel
def blocking(left: Matrix, block: BlockShape, left_panels: int, right_panels: int) -> Blocking:
    """Return how a product of `left_panels` x `right_panels` panels is cut."""
    words = -(-left.steps // 2) if block.parts else left.steps
    words = -(-words // block.chunk) * block.chunk
    most, capacity = _DEPTH, _TILE_WORDS if block.chunk > 1 else _WORDS
    if block.parts > 1:
        most, capacity = _SPLIT_DEPTH, _SPLIT_WORDS
    sections = -(-words // most)
    depth = -(-words // (sections * block.chunk)) * block.chunk  # sections of about one length
    size = depth * max(block.parts, 1)  # words of a panel for each of its lanes
    groups = max(1, -(-right_panels * block.columns * size // capacity))
    several = left.transposed or block.rows * size < 8_192
    return Blocking(words, depth, max(1, -(-right_panels // groups)), min(_LEFT if several else 1, left_panels))


class Work(NamedTuple):
    """The panels of a product that one call multiplies, and how they are cut."""

    rows: tuple[int, int]  # the first panel of the left factor, and the last one + 1
    columns: tuple[int, int]  # of the right factor
    blocking: Blocking


class PanelMemory(NamedTuple):
    """Memory for packed panels of both factors, and for a block at the edge of the result."""

    left: Array
    left_scratch: PackScratch
    right: Array
    right_scratch: PackScratch
    edge: Array


@kernel
def work_of(left: Matrix, result: Array, block: BlockShape, start: int, stop: int) -> Work:
    """Return the work on panels start to stop of the rows of the result if it is taller than wide, else of the columns.

    Threads share no packed panels: the panels that all of them need, those of the shorter factor, each thread packs for
    itself, which costs less than waiting.
    """
    height, width = result.shape
    rows = (start, stop) if height > width else (0, -(-height // block.rows))
    columns = (0, -(-width // block.columns)) if height > width else (start, stop)
    return Work(rows, columns, blocking(left, block, rows[1] - rows[0], columns[1] - columns[0]))


@kernel
def copy_edge(block: Array, target: Target, width: int, shape: tuple[int, int], add: bool) -> None:
    """Copy the first `shape` rows and columns of a block, `width` columns wide, to the result, or add them."""
    for i in range(shape[0]):
        first = target.start + i * target.stride
        line, values = target.elements[first : first + shape[1]], block[i * width : i * width + shape[1]]
        for j in range(values.size):
            line[j] = line[j] + values[j] if add else values[j]


@kernel
def multiply_work(
    left: Matrix, right: Matrix, result: Array, block: BlockShape, work: Work, memory: PanelMemory
) -> None:
    """Set the part of the result that the work covers, from left to right, block by block."""
    rows, columns, chunk, parts = block
    a, b = Factor(left, PanelLayout(rows, chunk, parts)), Factor(right, PanelLayout(columns, 1, parts))
    (height, stride), elements, (words, depth, group, together) = result.shape, result.reshape(-1), work.blocking
    (first_row, last_row), (first_column, last_column) = work.rows, work.columns
    configure_tiles(TILE_CONFIGURATION)
    for first in range(first_column, last_column, group):
        last = min(first + group, last_column)
        for begin in range(0, words, depth):
            length, adding = min(depth, words - begin), begin > 0
            lane_size = length * max(parts, 1)
            pack_panels(b, Section(first, last, begin, length), memory.right, memory.right_scratch)
            for i in range(first_row, last_row):
                number = (i - first_row) % together
                if number == 0:
                    section = Section(i, min(i + together, last_row), begin, length)
                    pack_panels(a, section, memory.left, memory.left_scratch)
                a_panel = Panel(memory.left, number * lane_size * rows)
                for j in range(first, last):
                    b_panel = Panel(memory.right, (j - first) * lane_size * columns)
                    target = Target(elements, i * rows * stride + j * columns, stride)
                    inside = min(rows, height - i * rows), min(columns, stride - j * columns)
                    if inside[0] == rows and inside[1] == columns:
                        multiply_block(a_panel, b_panel, length, parts, target, adding)
                    else:
                        multiply_block(a_panel, b_panel, length, parts, Target(memory.edge, 0, columns), False)
                        copy_edge(memory.edge, target, columns, inside, adding)
    release_tiles()


@allocating
def multiply_panels(
    left: Matrix, right: Matrix, result: Array, block: BlockShape, extremes: Array, start: int, stop: int
) -> None:
    """Set panels start to stop of the rows of the result if it has more rows than columns, else of the columns.

    extremes[start] gets what `update_extremes` found in the left factor and in the right one.
    """
    work, elements = work_of(left, result, block, start, stop), result.reshape(-1)
    size = work.blocking.depth * max(block.parts, 1)
    a = np.empty(work.blocking.together * block.rows * size + _SPARE, np.uint32)
    b = np.empty(work.blocking.group * block.columns * size + _SPARE, np.uint32)
    # Panels begin where a cache line does (64 bytes), so that one load never needs parts of two lines.
    a_words, b_words = a[-a.ctypes.data % 64 // 4 :], b[-b.ctypes.data % 64 // 4 :]
    edge = np.empty(block.rows * block.columns, np.float32)
    memory = PanelMemory(a_words, pack_scratch(elements), b_words, pack_scratch(elements), edge)
    multiply_work(left, right, result, block, work, memory)
    if start < stop:
        extremes[start, 0] = memory.left_scratch.extremes
        extremes[start, 1] = memory.right_scratch.extremes


def matrix_of(x: Array) -> Matrix:
    """Return the matrix whose lanes are the rows of `x`; copies only if `x` is neither contiguous nor transposed."""
    transposed = x.flags.f_contiguous and not x.flags.c_contiguous
    lines = x.T if transposed else x
    if not lines.flags.carray:
        lines = np.require(lines, requirements=["C", "A", "W"])
    return Matrix(lines.reshape(-1), 0, lines.shape[1], transposed, x.shape[0], x.shape[1])


def multiply(a: Array, b: Array, out: Array, block: Block) -> tuple[Extremes, Extremes]:
    """Set `out` to a @ b, all three float32; return the extremes of both factors.

    `block` is FLOAT32, BFLOAT16 (elements of a and b are rounded to bfloat16) or SPLIT (they are split into three
    bfloat16 parts). Every sum is added in one order whatever the number of threads.
    Shapes: a (M, K), b (K, N), out (M, N). `out` must be contiguous; `a` and `b` may be transposed views.
    """
    unknown = Extremes(0.0, 0.0)
    if 0 in (*a.shape, *b.shape):
        out[...] = 0
        return unknown, unknown
    left, right, shape = matrix_of(a), matrix_of(b.T), BlockShape(block.rows, block.columns, block.chunk, block.parts)
    rows, columns = out.shape
    longer, shorter, lanes = (rows, columns, block.rows) if rows > columns else (columns, rows, block.columns)
    found = np.empty((-(-longer // lanes), 2, 2 * SIDE), np.uint32)
    found[...] = NO_EXTREMES
    size = shorter * a.shape[1]  # of the shorter factor, which each range packs
    loop = partial(multiply_panels, left, right, out, shape, found)
    over_rows(loop, len(found), lanes * size // 8, 2 * size)
    return (_extremes_of(found[:, 0]), _extremes_of(found[:, 1])) if block.parts == 3 else (unknown, unknown)


def _extremes_of(found: Array) -> Extremes:
    largest = found[:, :SIDE].max(keepdims=True)
    smallest = found[:, SIDE:].min(keepdims=True) + np.uint32(1)  # of an array, so that the highest integer becomes 0
    return Extremes(*(float(bits.view(np.float32)[0, 0]) for bits in (largest, smallest)))


def extremes_of(x: Array) -> Extremes:
    """Return the extremes of some float32 elements."""
    sizes = np.abs(x)
    largest = float(sizes.max(initial=0))
    return Extremes(largest, float(sizes.min(initial=largest, where=sizes > 0)))


def is_as_close_as_float32(left: Extremes, right: Extremes, depth: int, result: Array) -> bool:
    r"""Return whether a product of elements split into three bfloat16 parts, sums of `depth` terms, is as close as one
    of float32, as far as that depends on the size of the elements. Two things differ (see
    `minigrad.kernels.codegen.bfloat16_pairs`):

    * Large elements. A part of infinity or NaN is NaN, and where the sum of products overflows, parts of opposite signs
      can overflow too, and add up to NaN instead of infinity.
    * Small elements. The tile registers take a number below $2^{-126}$ for zero, on the way in and on the way out.
      An element $x$ keeps all three parts if its last bit is at least $2^{-126}$, so if $|x| \ge 2^{-103}$; if not, it
      loses less than $2 \cdot 2^{-126}$. Each term of a sum is six products of parts, added up in pairs: at most nine
      roundings that lose less than $2^{-126}$. So a term $a b$ loses less than $2^{-126} (9 + 2 \max|a| + 2 \max|b|)$.

    Float32 itself rounds each term by up to $2^{-24} |a b|$. So nothing more is lost if all non-zero $|a|$ and $|b|$
    are at least $2^{-103}$ and all non-zero $|a b|$ at least $2^{-98}$, because
    $9 \cdot 2^{-126} < 2^{-24} \cdot 2^{-98}$. Nor does it matter where an element of the result is at least $2^{24}$
    times what a term loses: the bound of float32's own error, a rounding in each of `depth` additions, is `depth` times
    $2^{-24}$ times the sum of the absolute values of the terms, and that sum is at least the element.
    """
    largest = left.largest * right.largest * depth
    if not (np.isfinite((left.largest, right.largest)).all() and largest < _LARGEST_SUM):
        return False
    if largest == 0:
        return True
    smallest = min(left.smallest, right.smallest)
    if smallest >= _LEAST_ELEMENT and left.smallest * right.smallest >= _LEAST_TERM:
        return True
    lost = 2.0**-126 * (9 + 2 * left.largest + 2 * right.largest)
    return float(np.abs(result).min(initial=np.inf)) >= 2.0**24 * lost
