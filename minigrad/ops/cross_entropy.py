"""Cross-entropy: the price, in nats, of being told the true next token."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.graph import is_recording
from minigrad.autograd.op import op
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.gemm.backend import product, product_into
from minigrad.kernels.rowwise import cross_entropy as kernels
from minigrad.typing import Array

IGNORE = -100
"""Targets with this value count neither in the sum nor in the average."""


_LOGITS_AT_ONCE = 1 << 24  # numbers: 64 MB of float32


@op
def cross_entropy(logits: Array, targets: Array) -> tuple[Array, Backward]:
    r"""Average surprise at the true token: $L = -\frac1N \sum_t \ln \mathrm{softmax}(x_t)_{target_t}$.

    N counts the targets that are not -100; with none, the loss is 0.
    Shapes: logits (..., V), targets (...) whole numbers -> ().
    Raises ShapeError if the shapes do not fit, InputError if a target is out of range.
    """
    if not logits.ndim or targets.shape != logits.shape[:-1]:
        raise ShapeError(f"cross_entropy needs one target per row: logits {logits.shape}, targets {targets.shape}")
    flat, count = _checked(targets, logits.shape[-1])
    losses, normaliser = kernels.cross_entropy_forward(logits, flat, IGNORE)

    def backward(dy: Array) -> tuple[Array, None]:
        # dL/dx = (softmax(x) - one-hot(target)) / N: push the true token up, the guesses down.
        return kernels.cross_entropy_backward(logits, flat, IGNORE, normaliser, float(dy) / count), None

    return np.asarray(losses.sum() / losses.dtype.type(count)), backward


def logit_chunks(rows: int, vocab_size: int) -> int:
    """Return the number of chunks of rows whose logits exist at the same time."""
    return max(-(-rows * vocab_size // _LOGITS_AT_ONCE), 1)


@op
def linear_cross_entropy(x: Array, weight: Array, targets: Array) -> tuple[Array, Backward]:
    r"""Score all tokens and take the average surprise at the true ones, without storing the scores.

    The same number as ``cross_entropy(linear(x, weight), targets)``. The scores of a vocabulary are by far the widest
    rows of a model; here they exist for some rows at a time, and turn into their own gradient in place, from which
    follow $dx = d\,W$ and $dW = d^T x$. So the gradient is computed in the forward pass, while the scores are at hand:
    the loss is its own last step, and backward only has to scale by dy.
    Shapes: x (rows, C), weight (V, C), targets (rows,) whole numbers -> ().
    Raises ShapeError if the shapes do not fit, InputError if a target is out of range.
    """
    if x.ndim != 2 or weight.ndim != 2 or x.shape[1] != weight.shape[1] or targets.shape != x.shape[:1]:
        raise ShapeError(
            f"linear_cross_entropy needs x (rows, C), weight (V, C) and targets (rows,); got {x.shape}, "
            f"{weight.shape} and {targets.shape}"
        )
    flat, count = _checked(targets, len(weight))
    wanted = is_recording()
    losses = np.empty(len(x), x.dtype)
    dx, dw = (np.empty_like(x), np.empty_like(weight)) if wanted else (None, None)
    rows = -(-x.shape[0] // logit_chunks(len(x), len(weight)))
    for start in range(0, len(x), max(rows, 1)):
        part = slice(start, start + rows)
        scores = product(x[part], weight.T)
        if dx is None or dw is None:
            losses[part], _ = kernels.cross_entropy_forward(scores, flat[part], IGNORE)
            continue
        losses[part] = kernels.cross_entropy_in_place(scores, flat[part], IGNORE, 1 / count)
        product_into(scores, weight, dx[part], False)
        product_into(scores.T, x[part], dw, start > 0)
    if dw is not None and not len(x):
        dw[...] = 0

    def backward(dy: Array) -> tuple[Array, Deferred, None]:
        assert dx is not None
        assert dw is not None

        def write(out: Array, add: bool) -> None:
            if add:
                out += dw * dy
            else:
                np.multiply(dw, dy, out=out)

        return dx * dy, Deferred(dw.shape, dw.dtype, write), None

    return np.asarray(losses.sum() / losses.dtype.type(count)), backward


def _checked(targets: Array, classes: int) -> tuple[Array, int]:
    """Return the targets as int64 and how many are to be averaged over, at least 1."""
    if targets.dtype.kind not in "iu":
        raise InputError(f"cross_entropy needs whole numbers as targets, not {targets.dtype}")
    flat = np.require(targets.reshape(-1), np.int64, ["C", "W"])
    real = flat[flat != IGNORE]
    if real.size and not (real.min() >= 0 and real.max() < classes):
        raise InputError(f"cross_entropy got targets from {real.min()} to {real.max()} for {classes} classes")
    return flat, max(real.size, 1)
