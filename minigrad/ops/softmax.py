"""Softmax: from scores to probabilities."""

from __future__ import annotations

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.rowwise import softmax as kernels
from minigrad.typing import Array


def _check_axis(name: str, x: Array, axis: int) -> None:
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"{name} along axis {axis} of shape {x.shape}, which has {x.ndim} axes")


@op
def softmax(x: Array, *, axis: int = -1) -> tuple[Array, Backward]:
    r"""Turn scores into probabilities: $y_i = e^{x_i} / \sum_j e^{x_j}$.

    The largest score is subtracted first, so nothing overflows; a row of nothing but -inf gives zeros.
    Shapes: x (..., V) -> (..., V).  Raises ShapeError if axis is out of range.
    """
    _check_axis("softmax", x, axis)
    y = kernels.softmax_forward(x, axis)

    def backward(dy: Array) -> Array:
        # dL/dx_i = y_i (dy_i - sum_j dy_j y_j): a softmax can only move probability around.
        return kernels.softmax_backward(dy, y, axis)

    return y, backward


@op
def log_softmax(x: Array, *, axis: int = -1) -> tuple[Array, Backward]:
    r"""The logarithm of the softmax: $y_i = x_i - \ln \sum_j e^{x_j}$.

    Computed in one go, because the logarithm of a probability that rounded to 0 would be minus infinity.
    Shapes: x (..., V) -> (..., V).  Raises ShapeError if axis is out of range.
    """
    _check_axis("log_softmax", x, axis)
    y = kernels.log_softmax_forward(x, axis)

    def backward(dy: Array) -> Array:
        # dL/dx_i = dy_i - softmax_i sum_j dy_j
        return kernels.log_softmax_backward(dy, y, axis)

    return y, backward
