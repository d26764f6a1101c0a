"""Stacks of tensors of different shapes: of a few, of windows of a stream, and pyramids of windows of windows.

A window is yielded as soon as it is full, so a stream may be endless.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.typing import Array


@op(integer_dtype="any")
def zero_extended_stack(*parts: Array) -> tuple[Array, Backward]:
    r"""Join tensors along a new first axis, each extended by zeros to the longest size of every axis.

    This is the operator $\mathrm{Stack}_k$ of the variable-shape algebra. The result has k times the size of the
    largest shape; where only the first axis varies, `VarTensor.from_list` stores no zeros.
    Shapes: k parts (n_i0, n_i1, ...) -> (k, max over i of n_i0, max over i of n_i1, ...).
    Raises ShapeError without any part, or if the parts differ in their number of axes.

    >>> zero_extended_stack(Tensor([1.0, 2.0]), Tensor([3.0])).tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    if len({part.ndim for part in parts}) != 1:
        shapes = ", ".join(str(part.shape) for part in parts) or "none"
        raise ShapeError(f"zero_extended_stack needs tensors with equally many axes, at least one; got {shapes}")
    shape = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    y = np.zeros((len(parts), *shape), parts[0].dtype)
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
