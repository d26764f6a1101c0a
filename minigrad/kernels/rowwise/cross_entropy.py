"""Cross-entropy: how many nats the true next token costs."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.rowwise.maximum import LANES, row_maximum
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def _cross_entropy_rows(
    logits: Array, targets: Array, ignore: int, losses: Array, normaliser: Array, start: int, stop: int
) -> None:
    width = logits.shape[1]
    lanes = np.empty(LANES, logits.dtype)
    for i in range(start, stop):
        if targets[i] == ignore:
            losses[i] = 0
            normaliser[i] = 0
            continue
        largest = row_maximum(logits, i, width, lanes)
        total = logits.dtype.type(0)
        for j in range(width):
            total += exp(logits[i, j] - largest)
        normaliser[i] = largest + np.log(total)
        losses[i] = normaliser[i] - logits[i, targets[i]]


@kernel
def _cross_entropy_backward_rows(
    logits: Array, targets: Array, ignore: int, normaliser: Array, scale: float, dx: Array, start: int, stop: int
) -> None:
    width = logits.shape[1]
    for i in range(start, stop):
        if targets[i] == ignore:
            for j in range(width):
                dx[i, j] = 0
            continue
        for j in range(width):
            dx[i, j] = exp(logits[i, j] - normaliser[i]) * scale
        dx[i, targets[i]] -= scale


@kernel
def _cross_entropy_in_place_rows(
    logits: Array, targets: Array, ignore: int, losses: Array, scale: float, start: int, stop: int
) -> None:
    """Leave (softmax - one-hot) * scale where the scores were: the exponentials are computed once."""
    width = logits.shape[1]
    lanes = np.empty(LANES, logits.dtype)
    for i in range(start, stop):
        if targets[i] == ignore:
            losses[i] = 0
            for j in range(width):
                logits[i, j] = 0
            continue
        largest, score = row_maximum(logits, i, width, lanes), logits[i, targets[i]]
        total = logits.dtype.type(0)
        for j in range(width):
            e = exp(logits[i, j] - largest)
            logits[i, j] = e
            total += e
        losses[i] = largest + np.log(total) - score
        factor = scale / total
        for j in range(width):
            logits[i, j] *= factor
        logits[i, targets[i]] -= scale


def cross_entropy_forward(logits: Array, targets: Array, ignore: int) -> tuple[Array, Array]:
    """Return each row's loss in nats (0 where ignored) and its log of the sum of exponentials."""
    rows = rows_of(logits)
    losses, normaliser = np.empty(len(rows), rows.dtype), np.empty(len(rows), rows.dtype)
    over_rows(
        lambda start, stop: _cross_entropy_rows(rows, targets, ignore, losses, normaliser, start, stop),
        len(rows),
        4 * rows.shape[1],
    )
    return losses, normaliser


def cross_entropy_backward(logits: Array, targets: Array, ignore: int, normaliser: Array, scale: float) -> Array:
    """Return (softmax - one-hot) * `scale`, row by row; zero where ignored."""
    rows = rows_of(logits)
    dx, factor = np.empty_like(rows), rows.dtype.type(scale)
    over_rows(
        lambda a, b: _cross_entropy_backward_rows(rows, targets, ignore, normaliser, factor, dx, a, b),
        len(rows),
        4 * rows.shape[1],
    )
    return dx.reshape(logits.shape)


def cross_entropy_in_place(logits: Array, targets: Array, ignore: int, scale: float) -> Array:
    """Return each row's loss and turn `logits` (rows, V), which must lie row by row, into their gradient * `scale`."""
    losses, factor = np.empty(len(logits), logits.dtype), logits.dtype.type(scale)
    over_rows(
        lambda a, b: _cross_entropy_in_place_rows(logits, targets, ignore, losses, factor, a, b),
        len(logits),
        4 * logits.shape[1],
    )
    return losses
