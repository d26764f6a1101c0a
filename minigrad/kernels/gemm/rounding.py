"""Matrices rounded to bfloat16, for processors that cannot multiply bfloat16 themselves."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.codegen.bits import bfloat16_bits, float32_of
from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def _round_rows(x: Array, y: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        for j in range(x.shape[1]):
            y[i, j] = float32_of(bfloat16_bits(x[i, j]) << np.uint32(16))


def round_bfloat16(x: Array) -> Array:
    """Return a float32 array with every element rounded to bfloat16; a transposed matrix stays transposed."""
    if x.flags.f_contiguous and not x.flags.c_contiguous:
        return round_bfloat16(x.T).T
    rows = rows_of(x)
    y = np.empty_like(rows)
    over_rows(lambda start, stop: _round_rows(rows, y, start, stop), len(rows), rows.shape[1])
    return y.reshape(x.shape)
