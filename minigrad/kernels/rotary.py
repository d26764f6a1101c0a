"""Rotary positions: turn pairs of numbers by an angle that grows with the position."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.kernels import kernel, rows_of
from minigrad.kernels.threads import over_rows

Array = NDArray[Any]


@kernel
def _rotary_rows(
    x: Array,
    cosine: Array,
    sine: Array,
    positions: Array,
    direction: float,
    near: int,
    far: int,
    y: Array,
    start: int,
    stop: int,
) -> None:
    half = cosine.shape[1]
    heads = x.shape[1] // (2 * half)
    for i in range(start, stop):
        p = positions[i]
        for h in range(heads):
            first = h * 2 * half
            for j in range(half):
                p0 = first + near * j
                p1 = p0 + far
                a, b = x[i, p0], x[i, p1]
                c, s = cosine[p, j], sine[p, j] * direction
                y[i, p0] = a * c - b * s
                y[i, p1] = b * c + a * s


def rotate(x: Array, cosine: Array, sine: Array, positions: Array, direction: int, interleaved: bool) -> Array:
    """Turn the pairs (j, j + D/2), or (2j, 2j + 1), of every head of every row: forwards (1) or backwards (-1).

    Shapes: x (rows, H, D), cosine and sine (positions, D/2), positions (rows,) int64.
    """
    rows = rows_of(x, x.shape[1] * x.shape[2])
    y, sign = np.empty_like(rows), x.dtype.type(direction)
    near, far = (2, 1) if interleaved else (1, cosine.shape[1])  # from pair to pair, and within one
    over_rows(
        lambda start, stop: _rotary_rows(rows, cosine, sine, positions, sign, near, far, y, start, stop),
        len(rows),
        3 * rows.shape[1],
    )
    return y.reshape(x.shape)
