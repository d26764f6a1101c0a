"""Embedding: picking rows is easy; its gradient adds rows up where they were picked from."""

from __future__ import annotations

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def _scatter_add_columns(dy: Array, ids: Array, dw: Array, start: int, stop: int) -> None:
    # Threads share the columns, not the rows: two threads never add to the same number, and the order of the
    # additions is that of the rows, whatever the number of threads.
    for i in range(dy.shape[0]):
        given, total = dy[i, start:stop], dw[ids[i], start:stop]
        for j in range(given.size):
            total[j] += given[j]


def scatter_add(dy: Array, ids: Array, dw: Array) -> None:
    """Add each row of `dy` (rows, C) to row `ids[row]` of `dw` (V, C), which must lie row by row."""
    rows = rows_of(dy)
    over_rows(lambda start, stop: _scatter_add_columns(rows, ids, dw, start, stop), rows.shape[1], len(rows))
