"""Softmax: from real values to probabilities."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.rowwise import softmax as kernels
from minigrad.typing import Array


def softmax_formula(x: Array, *, axis: int = -1) -> Array:
    """Compute `softmax` in plain NumPy."""
    e = np.exp(x - _largest(x, axis))
    # The largest exponential is e^0 = 1, so a sum below 1 is that of a row of nothing but -inf: it is 0.
    return e / np.maximum(e.sum(axis=axis, keepdims=True), 1)


@op
def softmax(x: Array, *, axis: int = -1) -> tuple[Array, Backward]:
    r"""Convert real values to probabilities: $y_i = e^{x_i} / \sum_j e^{x_j}$.

    The largest value is subtracted first, so nothing overflows. A row of nothing but -inf has no distribution: by the
    convention of all operations here its probabilities are 0, their logarithms -inf (`log_softmax`), its logsumexp is
    -inf, and its cross-entropy infinite.
    Shapes: x (..., V) -> (..., V).  Raises ShapeError if axis is out of range.

    >>> from minigrad import Tensor, ops
    >>> ops.softmax(Tensor([0.0, 0.0, -np.inf])).tolist()
    [0.5, 0.5, 0.0]
    """
    _check_axis("softmax", x, axis)
    y = kernels.softmax_forward(x, axis)

    def backward(dy: Array) -> Array:
        # dy_i/dx_j = y_i ((i == j) - y_j), so dx_i = y_i (dy_i - sum_j dy_j y_j).
        # The elements of dx sum to 0, because the probabilities always sum to 1.
        return kernels.softmax_backward(dy, y, axis)

    return y, backward


def log_softmax_formula(x: Array, *, axis: int = -1) -> Array:
    """Compute `log_softmax` in plain NumPy."""
    shifted = x - _largest(x, axis)
    return shifted - np.log(np.maximum(np.exp(shifted).sum(axis=axis, keepdims=True), 1))  # one term is e^0 = 1


@op
def log_softmax(x: Array, *, axis: int = -1) -> tuple[Array, Backward]:
    r"""Compute the logarithm of the softmax: $y_i = x_i - \ln \sum_j e^{x_j}$.

    It is computed in one step, because the logarithm of a probability that was rounded to 0 would be minus infinity.
    A row of nothing but -inf stays as it is: its probabilities are 0 (see `softmax`), so its gradient is dy.
    Shapes: x (..., V) -> (..., V).  Raises ShapeError if axis is out of range.
    """
    _check_axis("log_softmax", x, axis)
    y = kernels.log_softmax_forward(x, axis)
    # dy_i/dx_j = (i == j) - softmax_j, so dx_j = dy_j - softmax_j sum_i dy_i.
    return y, lambda dy: kernels.log_softmax_backward(dy, y, axis)


def _largest(x: Array, axis: int) -> Array:
    """Return the maximum along an axis, as an axis of size 1; a finite value for no elements or nothing but -inf."""
    return x.max(axis=axis, keepdims=True, initial=np.finfo(x.dtype).min)


def _check_axis(name: str, x: Array, axis: int) -> None:
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"{name} along axis {axis} of shape {x.shape}, which has {x.ndim} axes")
