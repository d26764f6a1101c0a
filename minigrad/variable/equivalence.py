"""The class of a tensor: all tensors that become equal to it when zeros are appended along their axes.

Its smallest member has no zeros at the end of any axis; `shrink` returns it.
"""

from __future__ import annotations

import numpy as np

from minigrad import ops
from minigrad.autograd.graph import is_recording, no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.errors import GraphError
from minigrad.typing import Array
from minigrad.variable.promotion import promote


def equivalent(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are equal once both are extended by zeros to their common shape.

    As in NumPy, NaN equals nothing. Raises ShapeError if they differ in their number of axes.

    >>> equivalent(Tensor([1, 2]), Tensor([1, 2, 0])), equivalent(Tensor([1, 2]), Tensor([0, 1, 2]))
    (True, False)
    """
    with no_grad():
        first, second = promote(a, b)
    return bool(np.array_equal(first.data, second.data))


def shrink(x: Tensor) -> Tensor:
    """Return the smallest member of a tensor's class: without the zeros at the end of every axis, as a view.

    A tensor of nothing but zeros shrinks to size 0 along every axis. The shape of the result depends on the values, so
    shrinking saves memory between computations and is no part of one: raises GraphError for a tensor that requires a
    gradient, unless inside `no_grad()`.

    >>> shrink(Tensor([[1, 0, 0], [2, 3, 0], [0, 0, 0]])).tolist()
    [[1, 0], [2, 3]]
    """
    refuse_to_shrink_in_a_graph(x)
    sizes = []
    for axis in range(x.ndim):
        others = tuple(each for each in range(x.ndim) if each != axis)
        sizes.append(length_without_zeros(np.asarray(x.data.any(axis=others))))
    return ops.slice(x, index=tuple(map(slice, sizes)))


def length_without_zeros(occupied: Array) -> int:
    """Return the length up to the last True of a vector of booleans; 0 if there is none."""
    places = np.flatnonzero(occupied)
    return int(places[-1]) + 1 if len(places) else 0


def refuse_to_shrink_in_a_graph(x: Tensor) -> None:
    """Raise GraphError if `x` takes part in a gradient."""
    if is_recording() and x.requires_grad:
        raise GraphError(
            f"shrink of a tensor of shape {x.shape} that requires a gradient: a weight at the end that happens to be 0 "
            "would be cut off and never learn again. Shrink x.detach(), or inside `with no_grad():`"
        )
