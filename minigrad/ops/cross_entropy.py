"""Cross-entropy: the price, in nats, of being told the true next token."""

from __future__ import annotations

import numpy as np

from minigrad.errors import InputError, ShapeError
from minigrad.graph import Array, Backward
from minigrad.kernels import cross_entropy as kernels
from minigrad.op import op

IGNORE = -100
"""Targets with this value count neither in the sum nor in the average."""


@op
def cross_entropy(logits: Array, targets: Array) -> tuple[Array, Backward]:
    r"""Average surprise at the true token: $L = -\frac1N \sum_t \ln \mathrm{softmax}(x_t)_{target_t}$.

    N counts the targets that are not -100; with none, the loss is 0.
    Shapes: logits (..., V), targets (...) whole numbers -> ().
    Raises ShapeError if the shapes do not fit, InputError if a target is out of range.
    """
    if not logits.ndim or targets.shape != logits.shape[:-1]:
        raise ShapeError(f"cross_entropy needs one target per row: logits {logits.shape}, targets {targets.shape}")
    if targets.dtype.kind not in "iu":
        raise InputError(f"cross_entropy needs whole numbers as targets, not {targets.dtype}")
    flat = np.require(targets.reshape(-1), np.int64, ["C", "W"])
    real = flat != IGNORE
    if flat[real].size and not (flat[real].min() >= 0 and flat[real].max() < logits.shape[-1]):
        raise InputError(
            f"cross_entropy got targets from {flat[real].min()} to {flat[real].max()} for {logits.shape[-1]} classes"
        )
    count = max(int(real.sum()), 1)
    losses, normaliser = kernels.cross_entropy_forward(logits, flat, IGNORE)

    def backward(dy: Array) -> tuple[Array, None]:
        # dL/dx = (softmax(x) - one-hot(target)) / N: push the true token up, the guesses down.
        return kernels.cross_entropy_backward(logits, flat, IGNORE, normaliser, float(dy) / count), None

    return np.asarray(losses.sum() / losses.dtype.type(count)), backward
