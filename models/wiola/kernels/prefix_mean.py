"""Running means of rows, sequence by sequence."""

from __future__ import annotations

from functools import partial

import numpy as np

from minigrad.kernels.jit import allocating
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@allocating
def _prefix_mean_sequences(
    x: Array, offsets: Array, sums: Array, counts: Array, y: Array, start: int, stop: int
) -> None:
    for sequence in range(start, stop):
        total = sums[sequence].copy()
        for i in range(offsets[sequence], offsets[sequence + 1]):
            weight = 1.0 / (counts[sequence] + i - offsets[sequence] + 1)
            for j in range(x.shape[1]):
                total[j] += x[i, j]
                y[i, j] = total[j] * weight


@allocating
def _prefix_mean_backward_sequences(dy: Array, offsets: Array, counts: Array, dx: Array, start: int, stop: int) -> None:
    for sequence in range(start, stop):
        total = np.zeros(dy.shape[1])
        for i in range(offsets[sequence + 1] - 1, offsets[sequence] - 1, -1):
            weight = 1.0 / (counts[sequence] + i - offsets[sequence] + 1)
            for j in range(dy.shape[1]):
                total[j] += dy[i, j] * weight
                dx[i, j] = total[j]


def prefix_mean_forward(x: Array, offsets: Array, sums: Array, counts: Array) -> Array:
    """Return, for each row, the mean of this row and all earlier rows of its sequence.

    Sequence s has rows offsets[s]:offsets[s + 1] of `x`. sums[s] and counts[s] are the sum and the number of its rows
    before these; they are not changed. All sums are float64.
    Shapes: x (rows, C), offsets (S + 1,) int64, sums (S, C) float64, counts (S,) int64 -> (rows, C).
    """
    rows, work = rows_of(x), 4 * x.size // max(len(counts), 1)
    y = np.empty_like(rows)
    over_rows(partial(_prefix_mean_sequences, rows, offsets, sums, counts, y), len(counts), work)
    return y.reshape(x.shape)


def prefix_mean_backward(dy: Array, offsets: Array, counts: Array) -> Array:
    """Return the gradient of the rows: row u is part of the mean of every later row t, with a weight of 1 / n_t."""
    rows, work = rows_of(dy), 4 * dy.size // max(len(counts), 1)
    dx = np.empty_like(rows)
    over_rows(partial(_prefix_mean_backward_sequences, rows, offsets, counts, dx), len(counts), work)
    return dx.reshape(dy.shape)
