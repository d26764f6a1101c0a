"""The merging scan: from the left, a row joins its neighbour if the two point the same way."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def _merge_sequences(x: Array, offsets: Array, threshold: float, joins: Array, start: int, stop: int) -> None:
    for sequence in range(start, stop):
        free = False  # whether the row before may still take a partner
        before = 0.0  # its squared length
        for i in range(offsets[sequence], offsets[sequence + 1]):
            dot, length = 0.0, 0.0
            for j in range(x.shape[1]):
                value = np.float64(x[i, j])
                length += value * value
                if free:
                    dot += value * np.float64(x[i - 1, j])
            # A row of zeros points nowhere: its cosine with any other counts as 0.
            size = np.sqrt(length * before)
            cosine = dot / size if size > 0 else 0.0
            joins[i] = free and cosine > threshold
            free, before = not joins[i], length


def merge_groups(x: Array, offsets: Array, threshold: float) -> Array:
    """Return which rows (rows,) join the row before them; sequence s has rows offsets[s]:offsets[s + 1]."""
    rows, bounds = rows_of(x), np.require(offsets, np.int64, ["C", "W"])
    joins = np.empty(len(rows), np.bool_)
    over_rows(
        lambda start, stop: _merge_sequences(rows, bounds, float(threshold), joins, start, stop),
        len(bounds) - 1,
        4 * x.size // max(len(bounds) - 1, 1),
    )
    return joins
