"""Sums over the pairs of a query and a key that it sees, one by one, for factors that are infinite or NaN.

In a product of whole tiles, a key that a query does not see has the probability 0. That takes it out of the sum unless
its value is infinite or NaN, because 0 times these is NaN. So tiles with such values are added up here, by plain loops
that leave out the pairs that do not see each other. Training that has not diverged never comes here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.attention.plan import Seen
from minigrad.kernels.attention.tiles import COLUMNS, ROWS, Tile, by_kind, round_up
from minigrad.kernels.gemm.packing import Matrix
from minigrad.kernels.jit import kernel
from minigrad.typing import Array


@kernel
def all_finite(matrix: Matrix) -> Any:
    """Return whether a matrix whose lines are its lanes holds neither infinity nor NaN."""
    count = 0  # of others; x - x != 0 would not do, because the compiler may cancel it
    for lane in range(matrix.lanes):
        first = matrix.start + lane * matrix.stride
        line = matrix.elements[first : first + matrix.steps]
        for i in range(line.size):
            count += 0 if abs(line[i]) < np.inf else 1
    return count == 0


def _words_are_finite(packed: Array, matrix: Matrix) -> bool:
    return True


packs_finite = by_kind(0, lambda packed, matrix: all_finite(matrix), _words_are_finite, _words_are_finite)
"""Return whether a matrix that is packed into memory like `packed` is finite. Only elements are examined: what is
packed as words is known to be finite (`minigrad.kernels.attention.plan.is_moderate`).
"""


@kernel
def add_keys(weights: Array, tile: Tile, seen: Seen, keys: Matrix, sums: Array) -> None:
    """sums[d, query] += weights[key, query] * keys[key, d] for all keys of a tile that the query sees."""
    for i in range(min(tile.num_keys, keys.lanes)):
        for j in range(COLUMNS):
            if seen.first[j] <= tile.begin + i < seen.visible[j]:
                for d in range(keys.steps):
                    sums[d * COLUMNS + j] += weights[i * COLUMNS + j] * keys.elements[keys.start + i * keys.stride + d]


@kernel
def add_rows(weights: Array, tile: Tile, seen: Seen, rows: Matrix, sums: Array) -> None:
    """sums[key, d] += weights[key, query] * rows[query, d] for all queries of a panel that see the key.

    `sums` holds panels of D rounded up x COLUMNS keys: [key // COLUMNS][d][key % COLUMNS].
    """
    height = round_up(rows.steps, ROWS)
    for i in range(tile.num_keys):
        start = i // COLUMNS * COLUMNS * height + i % COLUMNS
        for j in range(rows.lanes):
            if seen.first[j] <= tile.begin + i < seen.visible[j]:
                for d in range(rows.steps):
                    value = rows.elements[rows.start + j * rows.stride + d]
                    sums[start + d * COLUMNS] += weights[i * COLUMNS + j] * value
