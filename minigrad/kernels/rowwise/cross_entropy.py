"""Cross-entropy: the negative logarithm, in nats, of the probability of the true next token."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.rowwise.maximum import LANES, row_maximum
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


class Targets(NamedTuple):
    """The true class of each row, and the class that means "no target"."""

    classes: Array  # (rows,) int64
    ignored: int


@kernel
def _cross_entropy_rows(
    logits: Array, targets: Targets, losses: Array, logsumexp: Array, start: int, stop: int
) -> None:
    width, classes, zero = logits.shape[1], targets.classes, logits.dtype.type(0)
    lanes = np.empty(LANES, logits.dtype)
    for i in range(start, stop):
        if classes[i] == targets.ignored:
            losses[i] = 0
            logsumexp[i] = 0
            continue
        largest = row_maximum(logits, i, width, lanes)
        shift = largest if largest > -np.inf else zero
        total = zero
        for j in range(width):
            total += exp(logits[i, j] - shift)
        # In a row of nothing but -inf every probability is 0, as in softmax, so the loss is infinite. The backward pass
        # computes the probabilities exp(-inf - 0) from a logsumexp of 0.
        logsumexp[i] = shift + np.log(total) if total != zero else zero
        losses[i] = logsumexp[i] - logits[i, classes[i]]


@kernel
def _cross_entropy_backward_rows(
    logits: Array, targets: Targets, logsumexp: Array, scale: float, dx: Array, start: int, stop: int
) -> None:
    width, classes = logits.shape[1], targets.classes
    for i in range(start, stop):
        if classes[i] == targets.ignored:
            for j in range(width):
                dx[i, j] = 0
            continue
        for j in range(width):
            dx[i, j] = exp(logits[i, j] - logsumexp[i]) * scale
        dx[i, classes[i]] -= scale


@kernel
def _cross_entropy_in_place_rows(
    logits: Array, targets: Targets, losses: Array, scales: Array, start: int, stop: int
) -> None:
    """Replace the logits of each row by (softmax - one-hot) * its scale; the exponentials are computed once."""
    width, classes, zero = logits.shape[1], targets.classes, logits.dtype.type(0)
    lanes = np.empty(LANES, logits.dtype)
    for i in range(start, stop):
        if classes[i] == targets.ignored:
            losses[i] = 0
            for j in range(width):
                logits[i, j] = 0
            continue
        largest, logit = row_maximum(logits, i, width, lanes), logits[i, classes[i]]
        shift = largest if largest > -np.inf else zero
        total = zero
        for j in range(width):
            e = exp(logits[i, j] - shift)
            logits[i, j] = e
            total += e
        # In a row of nothing but -inf every probability is 0, as in softmax, so the loss is infinite.
        losses[i] = shift + np.log(total) - logit if total != zero else -logit
        factor = scales[i] / total if total != zero else zero
        for j in range(width):
            logits[i, j] *= factor
        logits[i, classes[i]] -= scales[i]


def cross_entropy_forward(logits: Array, targets: Array, ignore: int) -> tuple[Array, Array]:
    """Return each row's loss in nats and its logsumexp; both are 0 where the target is `ignore`."""
    rows, given = rows_of(logits), Targets(targets, ignore)
    losses, logsumexp = np.empty(len(rows), rows.dtype), np.empty(len(rows), rows.dtype)
    over_rows(
        lambda start, stop: _cross_entropy_rows(rows, given, losses, logsumexp, start, stop),
        len(rows),
        4 * rows.shape[1],
    )
    return losses, logsumexp


def cross_entropy_backward(logits: Array, targets: Array, ignore: int, logsumexp: Array, scale: float) -> Array:
    """Return (softmax - one-hot) * `scale`, row by row; zero where the target is `ignore`."""
    rows, given = rows_of(logits), Targets(targets, ignore)
    dx, factor = np.empty_like(rows), rows.dtype.type(scale)
    over_rows(
        lambda start, stop: _cross_entropy_backward_rows(rows, given, logsumexp, factor, dx, start, stop),
        len(rows),
        4 * rows.shape[1],
    )
    return dx.reshape(logits.shape)


def cross_entropy_in_place(logits: Array, targets: Array, ignore: int, scales: Array) -> Array:
    """Return each row's loss in nats, and replace its logits by (softmax - one-hot) times its scale.

    Both are 0 where the target is `ignore`; the loss is not scaled.  Shapes: logits (rows, V), contiguous, targets
    (rows,) int64, scales (rows,) of the dtype of the logits -> (rows,).
    """
    losses, given = np.empty(len(logits), logits.dtype), Targets(targets, ignore)
    over_rows(
        lambda start, stop: _cross_entropy_in_place_rows(logits, given, losses, scales, start, stop),
        len(logits),
        4 * logits.shape[1],
    )
    return losses
