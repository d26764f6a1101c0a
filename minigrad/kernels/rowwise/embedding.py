"""The gradient of an embedding: rows of the gradient are added to the rows of the table that were looked up."""

from __future__ import annotations

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def _scatter_add_columns(dy: Array, ids: Array, dw: Array, start: int, stop: int) -> None:
    # Threads share the columns, not the rows: two threads never add to one element, and the order of the additions is
    # that of the rows, whatever the number of threads.
    for i in range(dy.shape[0]):
        row, total = dy[i, start:stop], dw[ids[i], start:stop]
        for j in range(row.size):
            total[j] += row[j]


def scatter_add(dy: Array, ids: Array, dw: Array) -> None:
    """Add each row of `dy` (rows, C) to row `ids[row]` of `dw` (V, C), which must be contiguous."""
    rows = rows_of(dy)
    work = len(rows)  # of a column; a range reads all ids too, and begins a piece of each row
    over_rows(lambda a, b: _scatter_add_columns(rows, ids, dw, a, b), rows.shape[1], work, 4 * work)
