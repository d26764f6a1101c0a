"""Zero-extension: a tensor with zeros appended along its axes. Its gradient is cut back to the tensor's own shape.

A tensor of any shape then stands for itself and for each of its zero-extensions, and tensors of different shapes can be
added, multiplied and stacked (see `minigrad.variable`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.typing import Array


@op(integer_dtype="any")
def zero_extend(x: Array, *, shape: tuple[int, ...]) -> tuple[Array, Backward]:
    r"""Append zeros along each axis until the tensor has `shape`: $y_i = x_i$ where x has an element i, else 0.

    Shapes: x (n_0, n_1, ...) -> `shape`, at least as large along each axis.  Raises ShapeError if an axis would become
    shorter, or if the number of axes differs.

    >>> from minigrad import Tensor, ops
    >>> ops.zero_extend(Tensor([[1.0, 2.0]]), shape=(2, 3)).tolist()
    [[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if len(shape) != x.ndim or any(size < own for size, own in zip(shape, x.shape, strict=True)):
        raise ShapeError(f"zero_extend cannot extend shape {x.shape} to {tuple(shape)}: axes only become longer")
    own = _own_elements(x)
    y = np.zeros(shape, x.dtype)
    y[own] = x

    def backward(dy: Array) -> Array:
        # The appended zeros do not depend on x, so x receives the gradients of its own elements and no others.
        return dy[own]

    return y, backward


@op(integer_dtype="any")
def zero_extended_stack(*parts: Array) -> tuple[Array, Backward]:
    r"""Join tensors of different shapes along a new first axis, each extended by zeros to the longest of every axis.

    This is the operator $\mathrm{Stack}_k$ of the variable-shape algebra. The result has k times the size of the
    largest shape; `minigrad.variable.VarTensor.from_list` stores no zeros, where only the first axis varies.
    Shapes: k parts (n_i0, n_i1, ...) -> (k, max over i of n_i0, max over i of n_i1, ...).
    Raises ShapeError without any part, or if the parts differ in their number of axes.

    >>> from minigrad import Tensor, ops
    >>> ops.zero_extended_stack(Tensor([1.0, 2.0]), Tensor([3.0])).tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    if len({part.ndim for part in parts}) != 1:
        shapes = ", ".join(str(part.shape) for part in parts) or "none"
        raise ShapeError(f"zero_extended_stack needs tensors with equally many axes, at least one; got {shapes}")
    own = [_own_elements(part) for part in parts]
    shape = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    y = np.zeros((len(parts), *shape), parts[0].dtype)
    for i, part in enumerate(parts):
        y[i, *own[i]] = part

    def backward(dy: Array) -> list[Array]:
        return [dy[i, *place] for i, place in enumerate(own)]

    return y, backward


def _own_elements(x: Array) -> tuple[Any, ...]:
    """Return the index of the elements of x in each of its zero-extensions."""
    return (..., *(slice(size) for size in x.shape))  # with the dots, also an array without axes gives an array
