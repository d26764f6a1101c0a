"""Cross-entropy: the negative logarithm, in nats, of the probability of the true next token."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.jit import exact, kernel
from minigrad.kernels.rows import rows_of, share_rows
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.rowwise.softmax import largest_of, log_probability
from minigrad.typing import Array

Targets = tuple[Array, int]
"""The true class of each row (rows,) int64, and the class that means "no target"."""

Sums = tuple[Array, Array]
"""Of each row (rows,), its largest logit m and the sum of the exponentials $\\sum_j e^{x_j - m}$."""


@exact
def cost(logit: Any, shift: Any, log_total: Any) -> Any:
    """Return the negative logarithm of a probability, in nats."""
    return -log_probability(logit, shift, log_total)


@kernel
def _cross_entropy_rows(logits: Array, targets: Targets, losses: Array, sums: Sums, start: int, stop: int) -> None:
    (classes, ignored), (shifts, totals) = targets, sums
    width, zero = logits.shape[1], logits.dtype.type(0)
    for i in range(start, stop):
        if classes[i] == ignored:
            losses[i] = shifts[i] = totals[i] = 0
            continue
        largest = largest_of(logits[i])
        shift = largest if largest > -np.inf else zero
        total = zero
        for j in range(width):
            total += exp(logits[i, j] - shift)
        shifts[i], totals[i] = shift, total
        # In a row of nothing but -inf every probability is 0, as in softmax, so the loss is infinite.
        log_total = np.log(total) if total != zero else zero
        losses[i] = cost(logits[i, classes[i]], shift, log_total)


@kernel
def _cross_entropy_backward_rows(
    logits: Array, targets: Targets, sums: Sums, scale: float, dx: Array, start: int, stop: int
) -> None:
    (classes, ignored), (shifts, totals) = targets, sums
    width, zero = logits.shape[1], logits.dtype.type(0)
    for i in range(start, stop):
        if classes[i] == ignored:
            for j in range(width):
                dx[i, j] = 0
            continue
        factor = scale / totals[i] if totals[i] != zero else zero
        for j in range(width):
            dx[i, j] = exp(logits[i, j] - shifts[i]) * factor
        dx[i, classes[i]] -= scale


@kernel
def _cross_entropy_in_place_rows(
    logits: Array, targets: Targets, losses: Array, scales: Array, start: int, stop: int
) -> None:
    """Replace the logits of each row by (softmax - one-hot) * its scale; the exponentials are computed once."""
    (classes, ignored), width, zero = targets, logits.shape[1], logits.dtype.type(0)
    for i in range(start, stop):
        if classes[i] == ignored:
            losses[i] = 0
            for j in range(width):
                logits[i, j] = 0
            continue
        largest, logit = largest_of(logits[i]), logits[i, classes[i]]
        shift = largest if largest > -np.inf else zero
        total = zero
        for j in range(width):
            e = exp(logits[i, j] - shift)
            logits[i, j] = e
            total += e
        # In a row of nothing but -inf every probability is 0, as in softmax, so the loss is infinite.
        losses[i] = cost(logit, shift, np.log(total) if total != zero else zero)
        factor = scales[i] / total if total != zero else zero
        for j in range(width):
            logits[i, j] *= factor
        logits[i, classes[i]] -= scales[i]


def cross_entropy_forward(logits: Array, targets: Array, ignore: int) -> tuple[Array, Sums]:
    """Return each row's loss in nats, and its sums; all are 0 where the target is `ignore`.

    Shapes: logits (..., V), targets (rows,) int64 -> (rows,), each of the sums (rows,).
    """
    rows = rows_of(logits)
    losses, shifts, totals = (np.empty(len(rows), rows.dtype) for _ in range(3))
    share_rows(_cross_entropy_rows, 4, rows, (targets, ignore), losses, (shifts, totals))
    return losses, (shifts, totals)


def cross_entropy_backward(logits: Array, targets: Array, ignore: int, sums: Sums, scale: float) -> Array:
    """Return (softmax - one-hot) * `scale`, row by row; zero where the target is `ignore`.

    Shapes: logits (..., V), targets (rows,) int64, each of the sums (rows,) -> (..., V).
    """
    rows = rows_of(logits)
    dx = np.empty_like(rows)
    share_rows(_cross_entropy_backward_rows, 4, rows, (targets, ignore), sums, rows.dtype.type(scale), dx)
    return dx.reshape(logits.shape)


def cross_entropy_in_place(logits: Array, targets: Array, ignore: int, scales: Array) -> Array:
    """Return each row's loss in nats, and replace its logits by (softmax - one-hot) times its scale.

    Both are 0 where the target is `ignore`; the loss is not scaled.  Shapes: logits (rows, V), contiguous, targets
    (rows,) int64, scales (rows,) of the dtype of the logits -> (rows,).
    """
    losses = np.empty(len(logits), logits.dtype)
    share_rows(_cross_entropy_in_place_rows, 4, logits, (targets, ignore), losses, scales)
    return losses
