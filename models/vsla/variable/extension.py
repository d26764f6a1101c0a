"""Zero-extension: a tensor stands for itself and for every tensor that appends zeros along its axes.

Tensors of different shapes are combined after both are extended to the longest size of every axis (ambient promotion).
This is not NumPy's broadcasting, which repeats an axis of size 1; here, zeros follow it. All tensors that extend to the
same one are a class. Its smallest member has no zeros at the end of any axis. Stacks join tensors of different shapes:
a few, windows of a stream, and pyramids of windows of windows; the stream may be endless.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from minigrad import ops
from minigrad.autograd.gradients import Backward
from minigrad.autograd.graph import is_recording, no_grad
from minigrad.autograd.op import op
from minigrad.autograd.tensor import Tensor
from minigrad.errors import GraphError, InputError, ShapeError
from minigrad.typing import Array


@op(integer_dtype="any")
def zero_extend(x: Array, *, shape: tuple[int, ...]) -> tuple[Array, Backward]:
    r"""Append zeros along each axis until the tensor has `shape`: $y_i = x_i$ where x has an element i, else 0.

    Shapes: x (n_0, n_1, ...) -> `shape`, at least as large along each axis.  Raises ShapeError if an axis would become
    shorter, or if the number of axes differs.

    >>> zero_extend(Tensor([[1.0, 2.0]]), shape=(2, 3)).tolist()
    [[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if len(shape) != x.ndim or any(size < own for size, own in zip(shape, x.shape, strict=True)):
        raise ShapeError(f"zero_extend cannot extend shape {x.shape} to {tuple(shape)}: axes only become longer")
    own: tuple[Any, ...] = (..., *map(slice, x.shape))  # with the dots, an array without axes gives an array too
    y = np.zeros(shape, x.dtype)
    y[own] = x
    return y, lambda dy: dy[own]  # the appended zeros do not depend on x


def promote(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Extend tensors by zeros to their common shape, the longest size of every axis; full-sized tensors are not copied.

    Raises ShapeError if they differ in their number of axes, and InputError for anything but tensors.

    >>> [each.tolist() for each in promote(Tensor([1, 2]), Tensor([3]))]
    [[1, 2], [3, 0]]
    """
    for each in tensors:
        if not isinstance(each, Tensor):
            raise InputError(f"only tensors are promoted, not {type(each).__name__}; use Tensor(...), or write x + y")
    if len({each.ndim for each in tensors}) > 1:
        shapes = ", ".join(str(each.shape) for each in tensors)
        raise ShapeError(f"only tensors with equally many axes have a common shape; got {shapes}")
    shape = tuple(max(sizes) for sizes in zip(*(each.shape for each in tensors), strict=True))
    return tuple(each if each.shape == shape else zero_extend(each, shape=shape) for each in tensors)


def add(a: Tensor, b: Tensor) -> Tensor:
    """Add the zero-extensions of two tensors.

    >>> add(Tensor([1, 2]), Tensor([10])).tolist()  # NumPy's broadcasting would give [11, 12]
    [11, 2]
    """
    return ops.add(*promote(a, b))


def subtract(a: Tensor, b: Tensor) -> Tensor:
    """Subtract the zero-extension of b from that of a."""
    return ops.subtract(*promote(a, b))


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Multiply the zero-extensions of two tensors element by element (the Hadamard product)."""
    return ops.multiply(*promote(a, b))


def equivalent(a: Tensor, b: Tensor) -> bool:
    """Return whether the zero-extensions of two tensors are equal. As in NumPy, NaN equals nothing.

    Raises ShapeError if the tensors differ in their number of axes.

    >>> equivalent(Tensor([1, 2]), Tensor([1, 2, 0])), equivalent(Tensor([1, 2]), Tensor([0, 1, 2]))
    (True, False)
    """
    with no_grad():
        first, second = promote(a, b)
    return bool(np.array_equal(first.data, second.data))


def shrink(x: Tensor) -> Tensor:
    """Return the smallest member of a tensor's class, without the zeros at the end of every axis, as a view.

    A tensor of zeros shrinks to size 0 along every axis. The shape of the result depends on the values: shrink between
    computations, not inside one. Raises GraphError for a tensor that requires a gradient, unless inside `no_grad()`.

    >>> shrink(Tensor([[1, 0, 0], [2, 3, 0], [0, 0, 0]])).tolist()
    [[1, 0], [2, 3]]
    """
    refuse_to_shrink_in_a_graph(x)
    return ops.slice(x, index=tuple(slice(length_without_zeros(x.data, axis)) for axis in range(x.ndim)))


def length_without_zeros(x: Array, axis: int = 0) -> int:
    """Return the size of an axis without the zeros at its end."""
    others = tuple(each for each in range(x.ndim) if each != axis)
    places = np.flatnonzero(x.any(axis=others))
    return int(places[-1]) + 1 if len(places) else 0


def refuse_to_shrink_in_a_graph(x: Tensor) -> None:
    """Raise GraphError if `x` takes part in a gradient."""
    if is_recording() and x.requires_grad:
        raise GraphError(
            f"shrink of a tensor of shape {x.shape} that requires a gradient: a weight at the end that happens to be 0 "
            "would be cut off and never learn again. Shrink x.detach(), or inside `with no_grad():`"
        )


@op(integer_dtype="any")
def zero_extended_stack(*parts: Array) -> tuple[Array, Backward]:
    r"""Join tensors along a new first axis, each extended by zeros to the longest size of every axis.

    This is the operator $\mathrm{Stack}_k$ of the variable-shape algebra. The result has k times the size of
    the common shape; where only the first axis varies, `VarTensor.from_list` stores no zeros.
    Shapes: k parts (n_i0, n_i1, ...) -> (k, max over i of n_i0, max over i of n_i1, ...).
    Raises ShapeError without any part, or if the parts differ in their number of axes.

    >>> zero_extended_stack(Tensor([1.0, 2.0]), Tensor([3.0])).tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    if len({part.ndim for part in parts}) != 1:
        shapes = ", ".join(str(part.shape) for part in parts) or "none"
        raise ShapeError(f"zero_extended_stack needs tensors with equally many axes, at least one; got {shapes}")
    shape = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    y = np.zeros((len(parts), *shape), np.result_type(*parts))
    places: list[tuple[Any, ...]] = [(i, ..., *map(slice, part.shape)) for i, part in enumerate(parts)]
    for place, part in zip(places, parts, strict=True):
        y[place] = part
    return y, lambda dy: [dy[place] for place in places]  # each gradient is cut back to the shape of its part


def window_stack(tensors: Iterable[Tensor], size: int, keep_rest: bool = False) -> Iterator[Tensor]:
    """Yield one `zero_extended_stack` for every `size` tensors: windows that do not overlap.

    The tensors after the last full window are dropped, or with `keep_rest` are a last, shorter stack.
    Raises InputError for a size below 1.

    >>> stream = [Tensor([1]), Tensor([2, 3]), Tensor([4])]
    >>> [each.tolist() for each in window_stack(stream, size=2)]
    [[[1, 0], [2, 3]]]
    >>> [each.shape for each in window_stack(stream, size=2, keep_rest=True)]
    [(2, 2), (1, 1)]
    """
    if size < 1:
        raise InputError(f"a window holds at least 1 tensor, not {size}")
    stream = iter(tensors)
    windows = iter(lambda: list(itertools.islice(stream, size)), [])
    return (zero_extended_stack(*window) for window in windows if keep_rest or len(window) == size)


def pyramid(tensors: Iterable[Tensor], size: int, levels: int, keep_rest: bool = False) -> Iterator[Tensor]:
    """Yield the top of a pyramid: windows of tensors, windows of those windows, and so on, `levels` times.

    Each level adds one axis. `keep_rest` acts as in `window_stack`, at every level.
    Raises InputError for a size below 1 or a negative number of levels.

    >>> stream = (Tensor([float(number)]) for number in range(9))
    >>> [each.shape for each in pyramid(stream, size=2, levels=3)]
    [(2, 2, 2, 1)]
    """
    if levels < 0:
        raise InputError(f"a pyramid has at least 0 levels, not {levels}")
    stream = iter(tensors)
    for _ in range(levels):
        stream = window_stack(stream, size, keep_rest)
    return stream
