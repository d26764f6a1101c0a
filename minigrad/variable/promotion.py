"""Ambient promotion: tensors of different shapes are extended by zeros to the longest of every axis, then combined.

This is not NumPy's broadcasting. There, an axis of size 1 is repeated; here, it is followed by zeros.
"""

from __future__ import annotations

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError


def promote(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Extend tensors by zeros to their common shape, the longest of every axis; those that have it stay as they are.

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
    return tuple(each if each.shape == shape else ops.zero_extend(each, shape=shape) for each in tensors)


def add(a: Tensor, b: Tensor) -> Tensor:
    """Add the zero-extensions of two tensors.

    >>> add(Tensor([1, 2]), Tensor([10])).tolist()  # NumPy's broadcasting would give [11, 12]
    [11, 2]
    """
    return ops.add(*promote(a, b))


def subtract(a: Tensor, b: Tensor) -> Tensor:
    """Subtract the zero-extension of b from that of a.

    >>> subtract(Tensor([1]), Tensor([10, 20])).tolist()
    [-9, -20]
    """
    return ops.subtract(*promote(a, b))


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Multiply the zero-extensions of two tensors element by element (the Hadamard product).

    >>> multiply(Tensor([1, 2]), Tensor([10])).tolist()
    [10, 0]
    """
    return ops.multiply(*promote(a, b))
