"""Newton-Schulz iterations of one matrix, in a single kernel.

They are fifteen small products. If these were computed one by one, threads that each have a matrix would wait for one
another whenever they return to Python; here they never do. A matrix times its own transpose is symmetric, so in vector
registers only the part on and above the diagonal is multiplied, and copied below it. In tile registers a product takes
less time than such a copy, so all of it is multiplied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, Block
from minigrad.kernels.gemm import backend
from minigrad.kernels.gemm.packing import Matrix
from minigrad.kernels.gemm.panels import BlockShape, multiply_panels
from minigrad.kernels.jit import allocating, kernel
from minigrad.typing import Array

_TOGETHER = 2  # panels of a symmetric product whose columns end at the same row


class Polynomial(NamedTuple):
    """The factors of x, of x x^T x and of (x x^T)^2 x in one iteration."""

    a: float
    b: float
    c: float


@kernel
def _mirror(square: Array) -> None:
    """Copy the elements above the diagonal below it."""
    for i in range(len(square)):
        for j in range(i):
            square[i, j] = square[j, i]


@allocating
def _iterate(x: Array, polynomial: Polynomial, count: int, block: BlockShape) -> None:
    """Do what `iterate` describes.

    Only the upper half of a symmetric product is computed: each group of columns ends at its own last row.
    """
    rows, columns = x.shape
    one = x.dtype.type(1)
    a, b, c = one * polynomial.a, one * polynomial.b, one * polynomial.c
    gram, mixed, turned = np.empty((rows, rows), x.dtype), np.empty((rows, rows), x.dtype), np.empty_like(x)
    extremes = np.empty((-(-columns // block.columns), 2, 2 * SIDE), np.uint32)  # which no product reads
    for _ in range(count):
        # gram = x x^T, mixed = gram gram^T, turned = (b gram + c mixed) x: one call, so that it is compiled once.
        for product in range(3):
            left, right, out = x, Matrix(x.reshape(-1), 0, columns, False, rows, columns), gram
            if product == 1:
                left, right, out = gram, Matrix(gram.reshape(-1), 0, rows, False, rows, rows), mixed
            elif product == 2:
                left, right, out = mixed, Matrix(x.reshape(-1), 0, columns, True, columns, rows), turned
            panels = -(-right.lanes // block.columns)
            together = panels if product == 2 or block.chunk > 1 else _TOGETHER
            for first in range(0, panels, together):
                last = min(first + together, panels)
                height = rows if last == panels else last * block.columns
                upper = Matrix(left.reshape(-1), 0, left.shape[1], False, height, left.shape[1])
                multiply_panels(upper, right, out[:height], block, extremes, first, last)
            if together < panels:
                _mirror(out)
            if product == 1:
                for i in range(rows):
                    for j in range(rows):
                        mixed[i, j] = b * gram[i, j] + c * mixed[i, j]
        for i in range(rows):
            for j in range(columns):
                x[i, j] = a * x[i, j] + turned[i, j]


def block_for(x: Array) -> Block | None:
    """Return the block of registers for products of such a matrix, in the precision in use; None if there is none."""
    if x.dtype != np.float32:
        return None
    return BFLOAT16 if backend.rounds(x.dtype) else FLOAT32


def iterate(x: Array, polynomial: Polynomial, count: int, block: Block) -> None:
    """Replace x by a x + b x x^T x + c (x x^T)^2 x, `count` times.  Shape: x (rows, columns), rows <= columns."""
    _iterate(x, polynomial, count, BlockShape(block.rows, block.columns, block.chunk, block.parts))
