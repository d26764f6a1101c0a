"""The merging scan: from left to right, a row joins the row before it if their cosine exceeds a threshold."""

from __future__ import annotations

from functools import partial

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def _merge_sequences(x: Array, offsets: Array, threshold: float, joins: Array, start: int, stop: int) -> None:
    for sequence in range(start, stop):
        is_free = False  # whether the row before exists and has not joined another
        before = 0.0  # its squared norm
        for i in range(offsets[sequence], offsets[sequence + 1]):
            dot, square = 0.0, 0.0
            for j in range(x.shape[1]):
                value = np.float64(x[i, j])
                square += value * value
                if is_free:
                    dot += value * np.float64(x[i - 1, j])
            # A row of zeros has no direction: its cosine with any other row counts as 0.
            norms = np.sqrt(square * before)
            cosine = dot / norms if norms > 0 else 0.0
            joins[i] = is_free and cosine > threshold
            is_free, before = not joins[i], square


def merge_groups(x: Array, offsets: Array, threshold: float) -> Array:
    """Return for each row (rows,) whether it joins the row before; sequence s has rows offsets[s]:offsets[s + 1]."""
    rows, bounds = rows_of(x), np.require(offsets, np.int64, ["C", "W"])
    joins, sequences = np.empty(len(x), np.bool_), len(bounds) - 1
    loop = partial(_merge_sequences, rows, bounds, float(threshold), joins)
    over_rows(loop, sequences, 4 * x.size // max(sequences, 1))
    return joins
