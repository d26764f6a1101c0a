"""The one layout that kernels are given: contiguous, writable rows of float32 or float64."""

from __future__ import annotations

import math

import numpy as np

from minigrad.errors import InputError
from minigrad.typing import Array


def rows_of(x: Array, width: int | None = None) -> Array:
    """Return `x` as contiguous, writable rows: shape (rows, `width`), by default the last axis; copies if it must.

    Numba compiles a kernel again for each layout and type it meets, so kernels are only ever given this layout, and
    float32 for work or float64 for checks. Raises InputError for any other type.
    """
    if x.dtype not in (np.float32, np.float64):
        raise InputError(f"this works on numbers of type float32 or float64, not {x.dtype}; use .astype('float32')")
    size = x.shape[-1] if width is None else width
    flat = np.ascontiguousarray(x).reshape(math.prod(x.shape) // size if size else 0, size)
    return flat if flat.flags.writeable else flat.copy()
