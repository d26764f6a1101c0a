"""Gradients as backward functions return them: arrays, or deferred gradients, which are computed when stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad.typing import Array


class Deferred:
    """A gradient that is computed when it is stored, directly into the array that accumulates it.

    ``write(out, add)`` adds the gradient to `out` if `add` is true, else overwrites `out` with it. For the gradient of
    a weight matrix this saves an array as large as the matrix, and reading it again.
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
