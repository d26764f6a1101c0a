"""Many numbers into one: sum, mean, maximum, and the soft maximum logsumexp."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.typing import Array

Axis = int | tuple[int, ...] | None


def _axes(name: str, x: Array, axis: Axis) -> tuple[int, ...]:
    """Return the reduced axes as non-negative numbers; raises ShapeError for an axis that is not there."""
    given = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    for number in given:
        if not -x.ndim <= number < x.ndim:
            raise ShapeError(f"{name} over axis {number} of shape {x.shape}, which has {x.ndim} axes")
    return tuple(number % x.ndim for number in given)


def _keep(y: Array, axes: tuple[int, ...]) -> Array:
    """Put back the reduced axes with size 1, so that the gradient broadcasts against the input."""
    return np.expand_dims(y, axes)


@op
def sum(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Backward]:
    r"""Add up: $y = \sum_i x_i$.

    Shapes: x (...) -> (...) without the axes in `axis` (all by default), or with size 1 there if `keepdims`.
    Raises ShapeError if an axis is not there.
    """
    axes, shape = _axes("sum", x, axis), x.shape

    def backward(dy: Array) -> Array:
        # Every term moves the sum one for one, so each gets the whole gradient.
        return np.broadcast_to(dy if keepdims else _keep(dy, axes), shape)

    return np.asarray(x.sum(axis=axes, keepdims=keepdims)), backward


@op
def mean(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Backward]:
    r"""Average: $y = \frac1n \sum_i x_i$.

    Shapes: x (...) -> (...) without the axes in `axis` (all by default), or with size 1 there if `keepdims`.
    Raises ShapeError if an axis is not there or there is nothing to average.
    """
    axes, shape = _axes("mean", x, axis), x.shape
    count = int(np.prod([shape[number] for number in axes]))
    if count == 0:
        raise ShapeError(f"mean of no numbers: shape {shape} has size 0 along axes {axes}")

    def backward(dy: Array) -> Array:
        return np.broadcast_to((dy if keepdims else _keep(dy, axes)) / count, shape)

    return np.asarray(x.mean(axis=axes, keepdims=keepdims)), backward


@op
def max(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Backward]:
    r"""Take the largest: $y = \max_i x_i$. Where several are equal, they share the gradient.

    Shapes: x (...) -> (...) without the axes in `axis` (all by default), or with size 1 there if `keepdims`.
    Raises ShapeError if an axis is not there or there is nothing to choose from.
    """
    axes = _axes("max", x, axis)
    if 0 in [x.shape[number] for number in axes]:
        raise ShapeError(f"max of no numbers: shape {x.shape} has size 0 along axes {axes}")
    largest = x.max(axis=axes, keepdims=True)
    winners = x == largest
    share = winners / winners.sum(axis=axes, keepdims=True, dtype=x.dtype)

    def backward(dy: Array) -> Array:
        return (dy if keepdims else _keep(dy, axes)) * share

    return np.asarray(largest if keepdims else largest.squeeze(axes)), backward


@op
def logsumexp(x: Array, *, axis: Axis = -1, keepdims: bool = False) -> tuple[Array, Backward]:
    r"""A smooth maximum: $y = \ln \sum_i e^{x_i}$, whose gradient is the softmax.

    The largest score is taken out first, so that the exponentials cannot overflow:
    $y = m + \ln \sum_i e^{x_i - m}$.  Shapes: x (...) -> (...) without the axes in `axis` (the last by default), or
    with size 1 there if `keepdims`.  Raises ShapeError if an axis is not there or there is nothing to add.
    """
    axes = _axes("logsumexp", x, axis)
    if 0 in [x.shape[number] for number in axes]:
        raise ShapeError(f"logsumexp of no numbers: shape {x.shape} has size 0 along axes {axes}")
    largest = x.max(axis=axes, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0).astype(x.dtype)  # a row of -inf stays -inf, not NaN
    with np.errstate(divide="ignore"):
        y = largest + np.log(np.exp(x - largest).sum(axis=axes, keepdims=True))
    finite = np.where(np.isfinite(y), y, 0).astype(x.dtype)

    def backward(dy: Array) -> Array:
        return (dy if keepdims else _keep(dy, axes)) * np.exp(x - finite)

    return np.asarray(y if keepdims else y.squeeze(axes)), backward
