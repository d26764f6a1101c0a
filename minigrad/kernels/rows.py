"""The one layout that kernels work on: contiguous, writable rows of float32 or float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.errors import InputError
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

_TYPES = (np.dtype(np.float32), np.dtype(np.float64))


def rows_of(x: Array, width: int | None = None) -> Array:
    """Return `x` as contiguous, writable rows: shape (rows, `width`), by default the last axis; copies if it must.

    Numba compiles a kernel again for each layout and type that it is called with, so kernels get this layout only, and
    float32 for work or float64 for checks. Raises InputError for any other type.
    """
    if x.dtype not in _TYPES:
        raise InputError(f"expected an array of float32 or float64, got {x.dtype}; use .astype('float32')")
    size = x.shape[-1] if width is None else width
    if not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)
    rows = x.reshape(math.prod(x.shape) // size if size else 0, size)
    return rows if rows.flags.writeable else rows.copy()


def share_rows(loop: Any, work: int, *arguments: Any) -> None:
    """Call ``loop(*arguments, start, stop)`` on ranges of the first argument's rows; `work` is that of an element."""
    rows = arguments[0]
    over_rows(lambda start, stop: loop(*arguments, start, stop), len(rows), work * rows.shape[1])
