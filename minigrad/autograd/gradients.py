"""Gradients as backward functions return them, and the arrays that these functions save.

Each block of memory counts its changes in place, so that `backward()` notices a saved array that has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad.autograd.operators import Operators
from minigrad.typing import Array


class Deferred:
    """A gradient that is computed when it is stored, directly into the array that accumulates it.

    ``write(out, add)`` adds the gradient to `out` if `add` is true, and otherwise overwrites `out` with it. For the
    gradient of a weight matrix this saves an array as large as the matrix, and a second pass over it.
    """

    __slots__ = ("dtype", "shape", "write")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], write: Callable[[Array, bool], None]) -> None:
        self.shape, self.dtype, self.write = shape, dtype, write

    def array(self) -> Array:
        """Compute the gradient into a new array."""
        out = np.empty(self.shape, self.dtype)
        self.write(out, False)
        return out


Gradient = Array | Deferred
Backward = Callable[[Array], Sequence[Gradient | None] | Gradient | None]


def saved_arrays(backward: Backward) -> list[Array]:
    """Return the arrays that a backward function saves, found in its closure."""
    saved: list[Array] = []
    for cell in getattr(backward, "__closure__", None) or ():
        content = cell.cell_contents
        if isinstance(content, np.ndarray):
            saved.append(content)
        elif isinstance(content, (tuple, list)):
            saved += [item for item in content if isinstance(item, np.ndarray)]
    return saved


class Version:
    """The number of in-place changes to a block of memory; tensors that share memory share one version."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


SavedVersions = tuple[tuple[Version, int], ...]
"""Versions, each with its count when a backward function saved the array."""


def saved_versions(backward: Backward, tensors: Sequence[Operators]) -> SavedVersions:
    """Return the version, and its count, of every tensor whose array the backward function saves."""
    arrays = saved_arrays(backward)

    def is_saved(data: Array) -> bool:
        return any(array is data or may_share_memory(array, data) for array in arrays)

    return tuple([(tensor.version, tensor.version.count) for tensor in tensors if is_saved(tensor.data)])


def may_share_memory(a: Array, b: Array) -> bool:
    """Return whether a change of one array may change the other.

    Two arrays that own their memory do not share it, nor do views of two such arrays; NumPy decides all other cases.
    """
    owner, other = a if a.base is None else a.base, b if b.base is None else b.base
    if owner is not other and type(owner) is type(other) is np.ndarray and owner.base is None and other.base is None:
        return False
    return np.may_share_memory(a, b)
