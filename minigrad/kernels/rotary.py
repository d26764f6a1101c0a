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
    x: Array, cosine: Array, sine: Array, positions: Array, direction: float, y: Array, start: int, stop: int
) -> None:
    half = cosine.shape[1]
    heads = x.shape[1] // (2 * half)
    for i in range(start, stop):
        p = positions[i]
        for h in range(heads):
            first = h * 2 * half
            for j in range(half):
                a, b = x[i, first + j], x[i, first + half + j]
                c, s = cosine[p, j], sine[p, j] * direction
                y[i, first + j] = a * c - b * s
                y[i, first + half + j] = b * c + a * s


def rotate(x: Array, cosine: Array, sine: Array, positions: Array, direction: int) -> Array:
    """Turn the pairs (j, j + D/2) of every head of every row: forwards (1) or backwards (-1).

    Shapes: x (rows, H, D), cosine and sine (positions, D/2), positions (rows,) int64.
    """
    rows = rows_of(x, x.shape[1] * x.shape[2])
    y, sign = np.empty_like(rows), x.dtype.type(direction)
    over_rows(
        lambda start, stop: _rotary_rows(rows, cosine, sine, positions, sign, y, start, stop),
        len(rows),
        3 * rows.shape[1],
    )
    return y.reshape(x.shape)
