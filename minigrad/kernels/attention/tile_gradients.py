"""The gradients of one panel of queries and one tile of keys: memory, the softmax, and the products."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minigrad.kernels.attention.factors import memory_for, pack_left, pack_right, product_with_panel
from minigrad.kernels.attention.plan import Denominators, HeadGroup, Inputs, Seen
from minigrad.kernels.attention.queries import QueryPanel, first_query, hide_keys, load_queries, load_seen, next_query
from minigrad.kernels.attention.tiles import COLUMNS, KEYS, ROWS, LeftFactor, Tile, lane_size, panel_product, round_up
from minigrad.kernels.attention.visible import add_keys, add_rows, packs_finite
from minigrad.kernels.gemm.packing import Matrix, PackScratch, pack_scratch
from minigrad.kernels.jit import kernel, pasted
from minigrad.kernels.rowwise.exponential import exp
from minigrad.typing import Array


class Saved(NamedTuple):
    """The arriving gradient, and what the forward pass returned."""

    dout: Array  # (rows, heads * D)
    out: Array  # (rows, heads * D)
    denominators: Denominators  # (rows, heads) each


class Statistics(NamedTuple):
    """What the gradient of a panel's softmax needs, one element per query."""

    seen: Seen  # (COLUMNS,) int32 each: which keys the query sees
    largest: Array  # (COLUMNS,): the largest score
    inverse: Array  # (COLUMNS,): 1 / the sum of exponentials, relative to the largest
    dots: Array  # (COLUMNS,): the dot products of dout and out


class Workspace(NamedTuple):
    """Memory for a tile of keys and a panel of queries; gradients of keys are summed panel by panel."""

    k_rows: Array  # keys and values of the tile as left factors
    v_rows: Array
    k_columns: Array  # transposed
    dk: Array
    dv: Array
    rows: Array  # the queries of the panel or the arriving gradient, unpacked; then the output
    outputs: Array
    q_right: Array  # both as right factors and, transposed, as left factors
    dout_right: Array
    q_columns: Array
    dout_columns: Array
    dq: Array  # the gradient of the queries of the panel
    statistics: Statistics
    scores: Array  # (keys of a tile, COLUMNS)
    slopes: Array  # their gradients
    slopes_right: Array
    block_right: Array  # COLUMNS x COLUMNS of the scores or the slopes, transposed
    mask: Array  # (keys of a tile, COLUMNS)
    drawn: Array  # (keys of a tile,)
    packing: PackScratch


@pasted
def backward_workspace(q: Array, packed: Array, size: int) -> Workspace:
    """Return uninitialised memory for heads of `size` elements, of the types of `q` and, packed, of `packed`."""
    height, kind = round_up(size, ROWS), q.dtype
    k_rows, v_rows = memory_for(packed, KEYS, size), memory_for(packed, KEYS, size)
    dk, dv, k_columns = np.empty(KEYS * height, kind), np.empty(KEYS * height, kind), memory_for(packed, height, KEYS)
    rows, outputs, dq = np.empty(COLUMNS * size, kind), np.empty(COLUMNS * size, kind), np.empty(height * COLUMNS, kind)
    q_right, dout_right = memory_for(packed, COLUMNS, size), memory_for(packed, COLUMNS, size)
    q_columns, dout_columns = memory_for(packed, height, COLUMNS), memory_for(packed, height, COLUMNS)
    seen = Seen(np.empty(COLUMNS, np.int32), np.empty(COLUMNS, np.int32))
    statistics = Statistics(seen, np.empty(COLUMNS, kind), np.empty(COLUMNS, kind), np.empty(COLUMNS, kind))
    scores, slopes = np.empty(KEYS * COLUMNS, kind), np.empty(KEYS * COLUMNS, kind)
    slopes_right, block_right = memory_for(packed, COLUMNS, KEYS), memory_for(packed, COLUMNS, COLUMNS)
    mask, drawn, packing = np.empty(KEYS * COLUMNS, kind), np.empty(KEYS, kind), pack_scratch(q.reshape(-1))
    keys = k_rows, v_rows, k_columns, dk, dv
    queries = rows, outputs, q_right, dout_right, q_columns, dout_columns, dq, statistics
    tile = scores, slopes, slopes_right, block_right, mask, drawn, packing
    return Workspace(*(keys + queries + tile))


@kernel
def softmax_gradient(scores: Array, slopes: Array, tile: Tile, scale: float, statistics: Statistics) -> None:
    """Compute P = exp(scale (S - largest)) inverse and dS = scale P (dP - dots), element by element and in place.

    `scores` holds the unscaled scores S and is overwritten by the probabilities P; `slopes` holds the gradient dP and
    is overwritten by dS. Both are tiles of keys x COLUMNS queries. P and dS of keys that a query does not see are 0.
    """
    seen, largest, inverse, dots = statistics
    for i in range(tile.num_keys):
        for j in range(COLUMNS):
            place = i * COLUMNS + j
            p = exp((scores[place] - largest[j]) * scale) * inverse[j]
            scores[place] = p
            slopes[place] = p * (slopes[place] - dots[j]) * scale
    # Scores of -inf would not do: pairs that do not see each other must be 0 even where a query or a key is NaN.
    hide_keys(scores, tile, seen, 0.0)
    hide_keys(slopes, tile, seen, 0.0)


@pasted
def load_gradient(saved: Saved, limits: Seen, panel: QueryPanel, heads: HeadGroup, workspace: Workspace) -> None:
    """Load the arriving gradient and the output of a panel into `rows` and `outputs`, and fill its statistics."""
    rows, outputs, denominators = workspace.rows, workspace.outputs, saved.denominators
    seen, largest, inverse, dots = workspace.statistics
    size, zero, query = heads.size, rows.dtype.type(0), first_query(panel, heads)
    load_seen(limits, panel, heads, seen)
    load_queries(saved.out, panel, heads, outputs)
    load_queries(saved.dout, panel, heads, rows)
    largest[:], inverse[:] = zero, zero  # of queries that see no key, and of padding rows
    for j in range(panel.num_rows):
        total = denominators.total[query.position, query.head]
        if total != zero:
            largest[j], inverse[j] = denominators.largest[query.position, query.head], rows.dtype.type(1) / total
        query = next_query(query, heads)
    for j in range(COLUMNS):
        row, output, dot = rows[j * size : (j + 1) * size], outputs[j * size : (j + 1) * size], zero
        for d in range(size):
            dot += row[d] * output[d]
        dots[j] = dot


@pasted
def load_panel(inputs: Inputs, saved: Saved, panel: QueryPanel, heads: HeadGroup, workspace: Workspace) -> Any:
    """Load and pack the queries of a panel and the arriving gradient; return whether both are finite."""
    packing, rows, size, height = workspace.packing, workspace.rows, heads.size, round_up(heads.size, ROWS)
    by_query, by_element = Matrix(rows, 0, size, False, COLUMNS, size), Matrix(rows, 0, size, True, size, COLUMNS)
    in_one_line = Matrix(rows, 0, COLUMNS * size, False, 1, COLUMNS * size)
    load_gradient(saved, inputs.seen, panel, heads, workspace)
    finite = packs_finite(workspace.q_right, in_one_line)
    pack_right(by_query, workspace.dout_right, packing)
    pack_left(by_element, LeftFactor(workspace.dout_columns, 0, height, COLUMNS), packing)
    load_queries(inputs.q, panel, heads, rows)
    pack_right(by_query, workspace.q_right, packing)
    pack_left(by_element, LeftFactor(workspace.q_columns, 0, height, COLUMNS), packing)
    return finite and packs_finite(workspace.q_right, in_one_line)


@pasted
def add_tile_gradients(tile: Tile, k_columns: LeftFactor, workspace: Workspace) -> None:
    """Set the gradient of the queries of a panel, and add to those by the keys and values of a tile, in products."""
    scores, slopes, block_right, packing = workspace.scores, workspace.slopes, workspace.block_right, workspace.packing
    height, skipped = k_columns.rows, tile.begin % KEYS  # tiles are cut at multiples of KEYS
    start = k_columns.start + ROWS * lane_size(k_columns.elements, skipped)
    seen_columns = LeftFactor(k_columns.elements, start, height, k_columns.steps)
    q_columns = LeftFactor(workspace.q_columns, 0, height, COLUMNS)
    dout_columns = LeftFactor(workspace.dout_columns, 0, height, COLUMNS)
    product_with_panel(seen_columns, slopes, tile.num_keys, workspace.slopes_right, packing, workspace.dq, False)
    padded = slice(tile.num_keys * COLUMNS, round_up(tile.num_keys, COLUMNS) * COLUMNS)
    scores[padded] = 0
    slopes[padded] = 0
    for i in range(0, tile.num_keys, COLUMNS):
        pack_right(Matrix(scores, i * COLUMNS, COLUMNS, False, COLUMNS, COLUMNS), block_right, packing)
        panel_product(dout_columns, block_right, COLUMNS, workspace.dv, (skipped + i) * height, True)
        pack_right(Matrix(slopes, i * COLUMNS, COLUMNS, False, COLUMNS, COLUMNS), block_right, packing)
        panel_product(q_columns, block_right, COLUMNS, workspace.dk, (skipped + i) * height, True)


@pasted
def add_visible_gradients(
    inputs: Inputs, saved: Saved, tile: Tile, panel: QueryPanel, heads: HeadGroup, keys: Matrix, workspace: Workspace
) -> None:
    """Do the same pair by pair, where keys, queries or the arriving gradient are infinite or NaN."""
    seen, place = workspace.statistics.seen, tile.begin % KEYS * round_up(heads.size, ROWS)
    rows = Matrix(workspace.rows, 0, heads.size, False, panel.num_rows, heads.size)
    workspace.dq[:] = 0
    add_keys(workspace.slopes, tile, seen, keys, workspace.dq)
    load_queries(saved.dout, panel, heads, workspace.rows)
    add_rows(workspace.scores, tile, seen, rows, workspace.dv[place:])
    load_queries(inputs.q, panel, heads, workspace.rows)
    add_rows(workspace.slopes, tile, seen, rows, workspace.dk[place:])
