"""Cross-entropy: the mean of -ln p over the true next tokens, in nats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.op import gradients_wanted, op
from minigrad.autograd.profile import FLOPS
from minigrad.constants import IGNORE
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.gemm.backend import product, product_into
from minigrad.kernels.rowwise import cross_entropy as kernels
from minigrad.ops.softmax import log_softmax_formula
from minigrad.typing import Array

_LOGITS_AT_ONCE = 1 << 24  # elements: 64 MB of float32


def cross_entropy_formula(logits: Array, targets: Array) -> Array:
    """Compute `cross_entropy` in plain NumPy."""
    real = targets != IGNORE
    rows, classes = logits[real], targets[real]  # (N, V), (N,)
    losses = -log_softmax_formula(rows)[np.arange(len(rows)), classes]
    return np.asarray(losses.sum() / max(len(rows), 1))


@op(integers=("targets",))
def cross_entropy(logits: Array, targets: Array) -> tuple[Array, Backward]:
    r"""Compute the mean cross-entropy: $L = -\frac1N \sum_t \ln \mathrm{softmax}(x_t)_{target_t}$.

    N is the number of targets that are not -100; if it is 0, so is the loss.
    Shapes: logits (..., V), targets (...) integers -> ().
    Raises ShapeError if the shapes do not fit, InputError if a target is out of range.

    >>> from minigrad import Tensor, ops
    >>> ops.cross_entropy(Tensor([[0.0, 0.0], [0.0, 9.0]]), Tensor([1, -100]))  # ln 2; the second row does not count
    Tensor(0.6931, dtype=float32)
    """
    if not logits.ndim or targets.shape != logits.shape[:-1]:
        raise ShapeError(f"cross_entropy needs one target per row: logits {logits.shape}, targets {targets.shape}")
    flat, count = checked_targets("cross_entropy", targets, logits.shape[-1])
    losses, sums = kernels.cross_entropy_forward(logits, flat, IGNORE)

    def backward(dy: Array) -> tuple[Array, None]:
        # A row's loss is logsumexp(x) - x_target, and the derivative of logsumexp is the softmax, so
        # dL/dx = (softmax(x) - one-hot(target)) / N: the logit of the true token should rise, all others fall.
        return kernels.cross_entropy_backward(logits, flat, IGNORE, sums, float(dy) / count), None

    return losses.sum() / losses.dtype.type(count), backward


def linear_cross_entropy_formula(x: Array, weight: Array, targets: Array, row_weights: Array | None = None) -> Array:
    """Compute `linear_cross_entropy` in plain NumPy."""
    losses = linear_losses_formula(x, weight, targets)
    total = (losses if row_weights is None else row_weights * losses).sum()
    return np.asarray(total / losses.dtype.type(max((targets != IGNORE).sum(), 1)))


@op(integers=("targets",))
def linear_cross_entropy(
    x: Array, weight: Array, targets: Array, row_weights: Array | None = None
) -> tuple[Array, Backward]:
    r"""Compute the logits $x W^T$ and their mean cross-entropy, without storing the logits.

    The same value as ``cross_entropy(linear(x, weight), targets)``. The logits of a vocabulary are by far the widest
    rows of a model. Here they exist for one chunk of rows at a time, and each chunk is overwritten by its gradient G,
    from which follow $dx = G\,W$ and $dW = G^T x$, if needed. So both gradients are computed in the forward pass, while
    the logits exist; backward only multiplies them by dy.
    With a weight $w_t$ for each row it is $L = \frac1N \sum_t w_t \ell_t$, where $\ell_t$ is the loss of row t
    (`linear_losses`) and N the number of targets that are not -100, and $dw_t = \ell_t / N$.
    Shapes: x (rows, C), weight (V, C), targets (rows,) integers, row_weights (rows,) -> ().
    Raises ShapeError if the shapes do not fit, InputError if a target is out of range.
    """
    head = ChunkedLosses("linear_cross_entropy", x, weight, targets, row_weights)
    *wanted, _, row_weights_wanted = gradients_wanted()
    if not any(wanted):
        return head.mean(head.losses(), None, None, row_weights_wanted)
    return head.mean(*head.losses_and_gradients(head.scales(), wanted), row_weights_wanted)


def linear_losses_formula(x: Array, weight: Array, targets: Array) -> Array:
    """Compute `linear_losses` in plain NumPy."""
    rows, real = log_softmax_formula(x @ weight.T), targets != IGNORE
    return np.where(real, -rows[np.arange(len(rows)), np.where(real, targets, 0)], rows.dtype.type(0))


@op(integers=("targets",))
def linear_losses(x: Array, weight: Array, targets: Array) -> tuple[Array, Backward]:
    r"""Compute the cross-entropy of each row in nats, $\ell_t = -\ln p(target_t)$; it is 0 where the target is -100.

    `linear_cross_entropy` is the mean of these. Any function of them can be differentiated. The logits are not stored,
    so backward computes them a second time: one more product than for a weighted mean with known weights.
    Shapes: x (rows, C), weight (V, C), targets (rows,) integers -> (rows,).
    Raises ShapeError if the shapes do not fit, InputError if a target is out of range.

    >>> import numpy as np
    >>> from minigrad import ops
    >>> ops.linear_losses(np.eye(2), np.zeros((4, 2)), [3, -100]).tolist()  # ln 4; the second row has no target
    [1.3862943611198906, 0.0]
    """
    *wanted, _ = gradients_wanted()
    head = ChunkedLosses("linear_losses", x, weight, targets)
    kept = head.targets  # the caller may change its own

    def backward(dy: Array) -> tuple[Array | None, Array | None, None]:
        # The gradient of a weighted sum of losses, whose weights are dy.
        # Made again, of x and weight: the graph finds the arrays that a function saved, not those inside an object.
        head = ChunkedLosses("linear_losses", x, weight, kept)
        _, dx, dw = head.losses_and_gradients(np.require(dy, x.dtype, ["C", "W"]), wanted)
        return dx, dw, None

    return head.losses(), backward


class ChunkedLosses:
    """Rows, the matrix of their logits, and their targets, whose losses are computed in chunks of rows.

    Raises ShapeError or InputError, in the name of an operation, if they do not fit, or a weight for each row does not.
    """

    copies = 1  # of the logits of a chunk, for which `lose` needs memory

    def __init__(self, name: str, x: Array, weight: Array, targets: Array, row_weights: Array | None = None) -> None:
        if x.ndim != 2 or weight.ndim != 2 or x.shape[1] != weight.shape[1] or targets.shape != x.shape[:1]:
            raise ShapeError(
                f"{name} needs x (rows, C), weight (V, C) and targets (rows,); got {x.shape}, "
                f"{weight.shape} and {targets.shape}"
            )
        if row_weights is not None and row_weights.shape != targets.shape:
            raise ShapeError(f"{name} needs row_weights {targets.shape}, not {row_weights.shape}")
        self.x, self.weight, self.row_weights = x, weight, row_weights
        self.targets, self.count = checked_targets(name, targets, len(weight))

    def scales(self) -> Array:
        """Return the factor of each row's loss in the mean, (rows,)."""
        scales = np.full(len(self.x), 1 / self.count, self.x.dtype)
        if self.row_weights is not None:
            scales *= self.row_weights
        return scales

    def losses(self) -> Array:
        """Return the cross-entropy of each row (rows,)."""
        if not len(self.weight):  # of no tokens: no target can count
            return np.zeros(len(self.x), self.x.dtype)
        losses = np.empty(len(self.x), self.x.dtype)
        for chunk in row_chunks(len(self.x), len(self.weight)):
            logits = product(self.x[chunk], self.weight.T)
            losses[chunk], _ = kernels.cross_entropy_forward(logits, self.targets[chunk], IGNORE)
        return losses

    def lose(self, logits: Array, chunk: slice, scales: Array) -> Array:
        """Return the losses of a chunk of rows, and overwrite its logits by the gradients of the scaled losses."""
        return kernels.cross_entropy_in_place(logits, self.targets[chunk], IGNORE, scales)

    def losses_and_gradients(self, scales: Array, wanted: Sequence[bool]) -> tuple[Array, Array | None, Array | None]:
        """Return the losses (rows,), and the wanted gradients dx and dW of their sum weighted by `scales` (rows,)."""
        x, weight = self.x, self.weight
        losses = np.empty(len(x), x.dtype)
        dx = np.empty_like(x) if wanted[0] else None
        dw = (np.empty_like if len(x) else np.zeros_like)(weight) if wanted[1] else None
        for chunk in row_chunks(len(x), self.copies * len(weight)):
            logits = product(x[chunk], weight.T)
            losses[chunk] = self.lose(logits, chunk, scales[chunk])
            gradient = logits  # its memory now holds them
            if dx is not None:
                product_into(gradient, weight, dx[chunk], False)
            if dw is not None:
                product_into(gradient.T, x[chunk], dw, chunk.start > 0)
        return losses, dx, dw

    def mean(
        self, losses: Array, dx: Array | None, dw: Array | None, row_weights_wanted: bool
    ) -> tuple[Array, Backward]:
        """Return the weighted mean of the losses, and its backward function, given the gradients dx and dW of it."""
        divisor = losses.dtype.type(self.count)
        weighted = losses if self.row_weights is None else losses * self.row_weights
        shares = losses / divisor if row_weights_wanted else None

        def backward(dy: Array) -> tuple[Array | None, Deferred | None, None, Array | None]:
            # A graph runs backward once, so both gradients are scaled in place: no second array of (V, C) is needed.
            def write(out: Array, add: bool) -> None:
                assert dw is not None
                np.multiply(dw, dy, out=dw if add else out)
                if add:
                    out += dw

            scaled = None if dx is None else np.multiply(dx, dy, out=dx)
            deferred = None if dw is None else Deferred(dw.shape, dw.dtype, write)
            return scaled, deferred, None, None if shares is None else shares * dy

        return weighted.sum() / divisor, backward


def logit_chunks(rows: int, vocab_size: int) -> int:
    """Return the number of chunks of rows whose logits a loss computes one after another."""
    return max(-(-rows * vocab_size // _LOGITS_AT_ONCE), 1)


def row_chunks(rows: int, vocab_size: int) -> list[slice]:
    """Return the chunks of rows whose logits are computed one after another; at most `logit_chunks`."""
    size = max(-(-rows // logit_chunks(rows, vocab_size)), 1)
    return [slice(start, start + size) for start in range(0, rows, size)]


def checked_targets(name: str, targets: Array, classes: int) -> tuple[Array, int]:
    """Return a copy of the targets as flat int64, and the N that their losses are divided by, at least 1."""
    if targets.size and targets.dtype.kind not in "iu":
        raise InputError(f"{name} needs integers as targets, not {targets.dtype}")
    flat = targets.reshape(-1).astype(np.int64)
    real = flat[flat != IGNORE]
    if real.size and not (real.min() >= 0 and real.max() < classes):
        raise InputError(f"{name} got targets from {real.min()} to {real.max()} for {classes} classes")
    return flat, max(real.size, 1)


FLOPS["linear_cross_entropy"] = (lambda x, weight, *rest: 2.0 * x.size * weight.shape[0], 3, 0)  # 1 without a gradient
FLOPS["linear_losses"] = (lambda x, weight, targets: 2.0 * x.size * weight.shape[0], 1, 3)  # the logits a second time
