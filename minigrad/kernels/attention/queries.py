"""Query rows of a group of heads, COLUMNS of them to a panel: loaded, added to, masked, and dropped out.

All query heads of a group share their keys and values, so they share a panel: query row r of a sequence is position
r // group, query head r % group of the group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.attention.plan import HeadGroup, Seen
from minigrad.kernels.attention.tiles import COLUMNS, Tile
from minigrad.kernels.codegen.bits import rounded_to_bfloat16
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.dropout import Draws, draw_mask
from minigrad.typing import Array


class QueryPanel(NamedTuple):
    """Query rows `row` to `row + num_rows` of the sequence whose first position is `first`."""

    first: int
    row: int
    num_rows: int  # at most COLUMNS


class Query(NamedTuple):
    """Where a query row lies: its position, and its query head among all of them."""

    position: int
    head: int


@kernel
def first_query(panel: QueryPanel, heads: HeadGroup) -> Query:
    """Return the first query row of a panel."""
    return Query(panel.first + panel.row // heads.group, heads.head * heads.group + panel.row % heads.group)


@kernel
def next_query(query: Query, heads: HeadGroup) -> Query:
    """Return the query row after this one, without a division, which would take as long as copying the row."""
    if query.head + 1 == (heads.head + 1) * heads.group:
        return Query(query.position + 1, heads.head * heads.group)
    return Query(query.position, query.head + 1)


# The loops below index slices from 0. An index that might be negative would count from the end; the compiler then
# copies the elements one by one.


@kernel
def load_queries(x: Array, panel: QueryPanel, heads: HeadGroup, y: Array) -> None:
    """Copy the query rows of a panel from x (positions, width) to y, padded with zeros to COLUMNS rows."""
    size, query = heads.size, first_query(panel, heads)
    for r in range(panel.num_rows):
        row, line = y[r * size : (r + 1) * size], x[query.position, query.head * size : (query.head + 1) * size]
        for d in range(size):
            row[d] = line[d]
        query = next_query(query, heads)
    y[panel.num_rows * size : COLUMNS * size] = 0


@kernel
def load_seen(seen: Seen, panel: QueryPanel, heads: HeadGroup, y: Seen) -> None:
    """Copy which keys each query row of a panel sees to y; rows of padding see what the last row sees."""
    query = first_query(panel, heads)
    for r in range(COLUMNS):
        y.first[r], y.visible[r] = seen.first[query.position], seen.visible[query.position]
        if r + 1 < panel.num_rows:
            query = next_query(query, heads)


@kernel
def add_queries(x: Array, panel: QueryPanel, heads: HeadGroup, y: Array) -> None:
    """Add the query rows of a panel, x, to those in y (positions, width)."""
    size, query = heads.size, first_query(panel, heads)
    for r in range(panel.num_rows):
        row, line = x[r * size : (r + 1) * size], y[query.position, query.head * size : (query.head + 1) * size]
        for d in range(size):
            line[d] += row[d]
        query = next_query(query, heads)


@kernel
def hide_keys(x: Array, tile: Tile, seen: Seen, value: float) -> None:
    """Set the elements of x (keys of a tile x COLUMNS queries) of keys that query j does not see to `value`.

    The bounds do not decrease, so only the first and the last rows are touched. All of a row is stored, and numbers and
    limits have 32 bits each, so that whole registers are compared and stored.
    """
    hidden, (first, visible) = x.dtype.type(value), seen
    for i in range(min(max(visible[0] - tile.begin, 0), tile.num_keys), tile.num_keys):
        row, key = x[i * COLUMNS : (i + 1) * COLUMNS], np.int32(tile.begin + i)
        for j in range(row.size):  # a loop of constant length would be unrolled into single elements
            row[j] = row[j] if key < visible[j] else hidden
    for i in range(min(max(first[COLUMNS - 1] - tile.begin, 0), tile.num_keys)):
        row, key = x[i * COLUMNS : (i + 1) * COLUMNS], np.int32(tile.begin + i)
        for j in range(row.size):
            row[j] = row[j] if key >= first[j] else hidden


@kernel
def draw_panel(mask: Array, drawn: Array, tile: Tile, panel: QueryPanel, heads: HeadGroup, draws: Draws) -> None:
    """Draw the dropout mask of the probabilities of a tile (keys x COLUMNS queries); `drawn` is scratch memory."""
    query = first_query(panel, heads)
    for r in range(COLUMNS):
        if r < panel.num_rows:
            row = (draws.first + query.position) * heads.kv_heads * heads.group + query.head
            draw_mask(drawn, tile.num_keys, tile.begin // 4, row, draws)
            query = next_query(query, heads)
        for i in range(tile.num_keys):
            mask[i * COLUMNS + r] = drawn[i] if r < panel.num_rows else 0


@kernel
def round_panel(values: Array, tile: Tile) -> None:
    """Round a tile (keys x COLUMNS queries) of float32 to bfloat16."""
    for i in range(tile.num_keys * COLUMNS):
        values[i] = rounded_to_bfloat16(values[i])


@kernel
def apply_mask(values: Array, mask: Array, tile: Tile) -> None:
    """Multiply a tile (keys x COLUMNS queries) by its dropout mask."""
    for i in range(tile.num_keys * COLUMNS):
        values[i] *= mask[i]
