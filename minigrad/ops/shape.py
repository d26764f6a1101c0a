"""Rearranging elements without changing their values: the gradient is rearranged back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.typing import Array


@op(integer_dtype="any")
def reshape(x: Array, *, shape: tuple[int, ...]) -> tuple[Array, Backward]:
    """Read the same elements, in the same order, in another shape; one size may be -1 and is computed from the others.

    Shapes: x (...) -> `shape`.  Raises ShapeError if the numbers of elements differ.
    """
    before = x.shape
    try:
        y = x.reshape(shape)
    except ValueError:
        raise ShapeError(
            f"reshape cannot change shape {before} ({x.size:,} elements) into {shape}: the number of elements "
            "must stay the same"
        ) from None
    return y, lambda dy: dy.reshape(before)


@op(integer_dtype="any")
def transpose(x: Array, *, axes: tuple[int, ...] | None = None) -> tuple[Array, Backward]:
    """Permute the axes: axis `axes[i]` of the input becomes axis i of the result; reversed by default.

    Shapes: x (n_0, n_1, ...) -> (n_{axes[0]}, n_{axes[1]}, ...).  Raises ShapeError if `axes` is not a permutation.
    """
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(a + x.ndim if a < 0 else a for a in axes)
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(f"transpose got axes {axes} for shape {x.shape}: name each of its {x.ndim} axes once")
    inverse = tuple(int(axis) for axis in np.argsort(order))
    return x.transpose(order), lambda dy: dy.transpose(inverse)


@op(integer_dtype="any")
def slice(x: Array, *, index: Any) -> tuple[Array, Backward]:
    """Select elements, as ``x[index]`` does in NumPy (integers, slices, None, ..., arrays of integers or booleans).

    Shapes: as in NumPy.  Raises ShapeError if the index does not fit the shape.
    """
    try:
        y = x[index]
    except IndexError as error:
        raise ShapeError(f"index {index!r} does not fit shape {x.shape}: {error}") from None
    shape, dtype = x.shape, x.dtype
    parts = tuple(map(_copied, index if isinstance(index, tuple) else (index,)))
    repeats = any(isinstance(part, np.ndarray) for part in parts)

    def backward(dy: Array) -> Deferred:
        # The gradient is dy in the place of the slice, and 0 elsewhere. Deferred, the gradients of several slices of
        # one array, such as queries, keys and values, are written into one array.
        def write(dx: Array, add: bool) -> None:
            if not add:
                dx[...] = 0
            if repeats:  # an array of indices may select an element several times: its gradients add up
                np.add.at(dx, parts, dy)
            elif add:
                dx[parts] += dy
            else:
                dx[parts] = dy

        return Deferred(shape, dtype, write)

    return y, backward


def _copied(part: Any) -> Any:
    """Return a part of an index as it will stay: an array is copied, and lists, tuples and ranges become arrays."""
    if isinstance(part, np.ndarray):
        return part.copy()
    if isinstance(part, list | tuple | range):
        return np.array(part, None if np.size(part) else np.intp)
    return part


@op(integer_dtype="any")
def concatenate(*parts: Array, axis: int = 0) -> tuple[Array, Backward]:
    """Join tensors along an axis that they have.

    Shapes: parts (..., n_i, ...) -> (..., sum of n_i, ...).  Raises ShapeError if the other sizes differ.
    """
    y = _joined(np.concatenate, parts, axis)
    cuts = np.cumsum([part.shape[axis] for part in parts])[:-1]
    return y, lambda dy: np.split(dy, cuts, axis=axis)


@op(integer_dtype="any")
def stack(*parts: Array, axis: int = 0) -> tuple[Array, Backward]:
    """Join tensors of one shape along a new axis.

    Shapes: n parts (...) -> (..., n, ...).  Raises ShapeError if the shapes differ.
    """
    return _joined(np.stack, parts, axis), lambda dy: list(np.moveaxis(dy, axis, 0))


@op(integers=("condition",), integer_dtype="any")
def where(condition: Array, a: Array, b: Array) -> tuple[Array, Backward]:
    """Choose element by element: `a` where the condition holds, else `b`, with broadcasting.

    Shapes: condition, a, b broadcast against each other.  The condition has no gradient.
    Raises ShapeError if they cannot.
    """
    chosen = np.array(condition, dtype=bool)  # the caller may change its own before the backward pass
    try:
        y = np.where(chosen, a, b)
    except ValueError:
        raise ShapeError(f"where cannot broadcast shapes {condition.shape}, {a.shape} and {b.shape}") from None
    # Not dy times 0 or 1, which would be NaN for an element that was not chosen, where dy is infinite.
    return y, lambda dy: (None, np.where(chosen, dy, 0), np.where(chosen, 0, dy))


def _joined(join: Callable[..., Array], parts: tuple[Array, ...], axis: int) -> Array:
    """Return ``join(parts, axis)``, a function of NumPy; raises ShapeError if the shapes or the axis do not fit."""
    name = join.__name__
    if not parts:
        raise ShapeError(f"{name} needs at least one tensor")
    if axis is None:
        raise ShapeError(f"{name} needs an axis; reshape(-1) makes a row of a tensor")
    try:
        return join(parts, axis=axis)
    except ValueError as error:
        shapes = ", ".join(str(part.shape) for part in parts)
        raise ShapeError(f"{name} cannot use arguments of shapes {shapes}: {error}") from None
