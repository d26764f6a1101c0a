"""Reductions: sum, mean, maximum, minimum and logsumexp over axes."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.typing import Array

Axis = int | tuple[int, ...] | None


@op(integer_dtype="int64")
def sum(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Backward]:
    r"""Add up: $y = \sum_i x_i$.

    Shapes: x (...) -> (...) without the axes in `axis` (all by default), or with size 1 there if `keepdims`.
    Raises ShapeError if an axis does not exist.
    """
    axes, shape = _axes("sum", x, axis), x.shape
    y = x.sum(axis=axes, keepdims=True)
    kept = y.shape  # that of x, with size 1 along the axes

    def backward(dy: Array) -> Array:
        # The derivative of a sum with respect to each of its terms is 1.
        return np.broadcast_to(dy.reshape(kept), shape)

    return y if keepdims else y.squeeze(axes), backward


@op(integer_dtype="float32")
def mean(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Backward]:
    r"""Average: $y = \frac1n \sum_i x_i$.

    Shapes: as in `sum`.  Raises ShapeError if there are no elements to average.
    """
    axes, shape = _axes("mean", x, axis, some=True), x.shape
    y = x.mean(axis=axes, keepdims=True)
    kept, count = y.shape, int(np.prod([shape[each] for each in axes]))

    def backward(dy: Array) -> Array:
        return np.broadcast_to(dy.reshape(kept) / count, shape)

    return y if keepdims else y.squeeze(axes), backward


@op(integer_dtype="any")
def max(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Backward]:
    r"""Take the largest: $y = \max_i x_i$. If several elements are the largest, they share the gradient equally.

    Shapes: as in `sum`.  Raises ShapeError if there are no elements to choose from.
    """
    axes = _axes("max", x, axis, some=True)
    return _chosen(x, x.max(axis=axes, keepdims=True), axes, keepdims)


@op(integer_dtype="any")
def min(x: Array, *, axis: Axis = None, keepdims: bool = False) -> tuple[Array, Backward]:
    r"""Take the smallest: $y = \min_i x_i$. If several elements are the smallest, they share the gradient equally.

    Shapes: as in `sum`.  Raises ShapeError if there are no elements to choose from.
    """
    axes = _axes("min", x, axis, some=True)
    return _chosen(x, x.min(axis=axes, keepdims=True), axes, keepdims)


def _chosen(x: Array, y: Array, axes: tuple[int, ...], keepdims: bool) -> tuple[Array, Backward]:
    """Return y, the largest or smallest elements of x along `axes`, which have size 1 in y, and their backward."""
    is_chosen, kept = x == y, y.shape

    def backward(dy: Array) -> Array:
        share = is_chosen / is_chosen.sum(axis=axes, keepdims=True, dtype=dy.dtype)
        return np.where(is_chosen, dy.reshape(kept), 0) * share

    return y if keepdims else y.squeeze(axes), backward


@op(integer_dtype="float32")
def logsumexp(x: Array, *, axis: Axis = -1, keepdims: bool = False) -> tuple[Array, Backward]:
    r"""Compute a smooth maximum, whose gradient is the softmax: $y = \ln \sum_i e^{x_i}$.

    The largest value is subtracted first, so that the exponentials cannot overflow:
    $y = m + \ln \sum_i e^{x_i - m}$.  Nothing but -inf gives -inf, with a gradient of zeros (see `softmax`). If an
    element is inf, so is the result, and the infinite elements share its gradient equally.
    Shapes: as in `sum`, but `axis` is the last by default.  Raises ShapeError if there are no elements.
    """
    axes = _axes("logsumexp", x, axis, some=True)
    largest = x.max(axis=axes, keepdims=True)
    with np.errstate(invalid="ignore"):
        e = np.exp(np.where(x == largest, 0, x - largest))  # inf - inf, of two infinite elements, counts as 0
    total = e.sum(axis=axes, keepdims=True)
    y = largest + np.log(total)
    kept = y.shape

    def backward(dy: Array) -> Array:
        # The gradient is the softmax, e / sum(e); it is 0 for nothing but -inf, where every e is e^0.
        p = e / np.where(largest == -np.inf, np.inf, total)
        return dy.reshape(kept) * p

    return y if keepdims else y.squeeze(axes), backward


def _axes(name: str, x: Array, axis: Axis, some: bool = False) -> tuple[int, ...]:
    """Return the reduced axes, counted from 0; raises ShapeError if one does not exist, or needs `some` elements."""
    given = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int | np.integer) else axis
    for each in given:
        if not -x.ndim <= each < x.ndim:
            raise ShapeError(f"{name} over axis {each} of shape {x.shape}, which has {x.ndim} axes")
    axes = tuple(each % x.ndim for each in given)
    if len(set(axes)) < len(axes):
        raise ShapeError(f"{name} over axes {axis} of shape {x.shape} names an axis twice")
    if some and 0 in [x.shape[each] for each in axes]:
        raise ShapeError(f"{name} of no elements: shape {x.shape} has size 0 along axes {axes}")
    return axes
