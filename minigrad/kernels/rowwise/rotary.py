"""Rotary positions: rotate pairs of elements by an angle proportional to the position."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of, share_rows
from minigrad.typing import Array


@kernel
def _rotary_rows(x: Array, rotation: tuple[Array, Array, Array, float, bool], y: Array, start: int, stop: int) -> None:
    cosine, sine, positions, direction, interleaved = rotation
    half = cosine.shape[1]
    for i in range(start, stop):
        p = positions[i]
        for h in range(x.shape[1] // (2 * half)):
            first = 2 * half * h
            for j in range(half):
                # The branch is the same in every step: LLVM makes two loops of it, each in vector registers.
                p0 = first + 2 * j if interleaved else first + j
                p1 = p0 + 1 if interleaved else p0 + half
                c, s = cosine[p, j], sine[p, j] * direction
                y[i, p0], y[i, p1] = x[i, p0] * c - x[i, p1] * s, x[i, p1] * c + x[i, p0] * s


def rotate(x: Array, cosine: Array, sine: Array, positions: Array, direction: int, interleaved: bool) -> Array:
    """Rotate the pairs (j, j + D/2), or (2j, 2j + 1), of every head of every row: forwards (1) or backwards (-1).

    Shapes: x (rows, H, D), cosine and sine (positions, D/2), positions (rows,) int64.
    """
    rows = rows_of(x, x.shape[1] * x.shape[2])
    y = np.empty_like(rows)
    share_rows(_rotary_rows, 3, rows, (cosine, sine, positions, x.dtype.type(direction), interleaved), y)
    return y.reshape(x.shape)
