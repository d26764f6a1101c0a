"""Query rows of a group of heads, COLUMNS of them to a panel: loaded, added to, masked, and dropped out.

All query heads of a group share their keys and values, so they share a panel: query row r of a sequence is position
r // group, query head r % group of the group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.attention.plan import HeadGroup
from minigrad.kernels.attention.tiles import COLUMNS, Tile
from minigrad.kernels.codegen.bits import bfloat16_bits, float32_of
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.dropout import Draws, draw_mask
from minigrad.typing import Array


class QueryPanel(NamedTuple):
    """Query rows `row` to `row + num_rows` of the sequence whose first position is `first`."""

    first: int
    row: int
    num_rows: int  # at most COLUMNS


@kernel
def load_queries(x: Array, panel: QueryPanel, heads: HeadGroup, y: Array) -> None:
    """Copy the query rows of a panel from x (positions, width) to y, padded with zeros to COLUMNS rows."""
    size = heads.size
    for r in range(panel.num_rows):
        position, head = panel.first + (panel.row + r) // heads.group, (panel.row + r) % heads.group
        column = (heads.head * heads.group + head) * size
        for d in range(size):
            y[r * size + d] = x[position, column + d]
    y[panel.num_rows * size : COLUMNS * size] = 0


@kernel
def add_queries(x: Array, panel: QueryPanel, heads: HeadGroup, y: Array) -> None:
    """Add the query rows of a panel, x, to those in y (positions, width)."""
    size = heads.size
    for r in range(panel.num_rows):
        position, head = panel.first + (panel.row + r) // heads.group, (panel.row + r) % heads.group
        column = (heads.head * heads.group + head) * size
        for d in range(size):
            y[position, column + d] += x[r * size + d]


@kernel
def causal_mask(x: Array, tile: Tile, visible: Array, value: float) -> None:
    """Set the elements of x (keys of a tile x COLUMNS queries) of keys from visible[j] on to `value`.

    `visible` does not decrease, so only the last rows are touched.
    """
    for i in range(min(max(visible[0] - tile.begin, 0), tile.num_keys), tile.num_keys):
        for j in range(COLUMNS):
            if tile.begin + i >= visible[j]:
                x[i * COLUMNS + j] = value


@kernel
def draw_panel(mask: Array, drawn: Array, tile: Tile, panel: QueryPanel, heads: HeadGroup, draws: Draws) -> None:
    """Draw the dropout mask of the probabilities of a tile (keys x COLUMNS queries); `drawn` is scratch memory."""
    group = heads.group
    for r in range(COLUMNS):
        position, head = panel.first + (panel.row + r) // group, heads.head * group + (panel.row + r) % group
        if r < panel.num_rows:
            row = (draws.first + position) * heads.kv_heads * group + head
            draw_mask(drawn, tile.num_keys, tile.begin // 4, row, draws)
        for i in range(tile.num_keys):
            mask[i * COLUMNS + r] = drawn[i] if r < panel.num_rows else 0


@kernel
def round_panel(values: Array, tile: Tile) -> None:
    """Round a tile (keys x COLUMNS queries) of float32 to bfloat16."""
    for i in range(tile.num_keys * COLUMNS):
        values[i] = float32_of(bfloat16_bits(values[i]) << np.uint32(16))


@kernel
def apply_mask(values: Array, mask: Array, tile: Tile) -> None:
    """Multiply a tile (keys x COLUMNS queries) by its dropout mask."""
    for i in range(tile.num_keys * COLUMNS):
        values[i] *= mask[i]
