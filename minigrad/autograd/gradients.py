"""What a backward function is given and what it returns: gradients, some of them computed only when they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad.typing import Array


class Deferred:
    """A gradient that is computed when it is stored, straight into the array that accumulates it.

    ``write(out, add)`` sets `out` to the gradient, or adds it with `add`. For the gradient of a weight matrix this
    saves an array as large as the matrix, and reading it again.
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
    """Return the arrays that a backward function keeps, found in its closure."""
    kept: list[Array] = []
    for cell in getattr(backward, "__closure__", None) or ():
        content = cell.cell_contents
        if isinstance(content, np.ndarray):
            kept.append(content)
        elif isinstance(content, (tuple, list)):
            kept += [item for item in content if isinstance(item, np.ndarray)]
    return kept
