"""The gradient of attention, tile by tile: probabilities are computed again, never stored for the whole sequence.

With probabilities $P$, attended values $O = P V$ and the arriving gradient $dO$: $dV = P^T dO$, $dP = dO V^T$,
$dS = P (dP - d)$ element by element, with $d$ the sums over the rows of $dO \\, O$, and then $dQ = dS K$ and
$dK = dS^T Q$, where dS includes the scale (Dao et al. 2022, appendix B.4). Five products for every tile of keys and
panel of queries. Tiles of keys are the outer loop: their gradients are summed in small buffers, and each panel's
gradient is added to that of its queries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minigrad.kernels.attention.factors import as_right, memory_for, pack_left, pack_right, transpose
from minigrad.kernels.attention.plan import HeadGroup, Inputs, Plan, flat, task_of
from minigrad.kernels.attention.queries import (
    QueryPanel,
    add_queries,
    apply_mask,
    causal_mask,
    draw_panel,
    load_queries,
    round_panel,
)
from minigrad.kernels.attention.tiles import COLUMNS, KEYS, ROWS, LeftFactor, Tile, panel_product, round_up
from minigrad.kernels.attention.visible import add_keys, add_rows, all_finite
from minigrad.kernels.codegen.amx import TILE_CONFIGURATION, configure_tiles, release_tiles
from minigrad.kernels.gemm.packing import Matrix, PackScratch, pack_scratch
from minigrad.kernels.gemm.rounding import round_bfloat16
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


class Saved(NamedTuple):
    """The arriving gradient, and what the forward pass returned."""

    dout: Array  # (rows, heads * D)
    out: Array  # (rows, heads * D)
    logsumexp: Array  # (rows, heads)


class Gradients(NamedTuple):
    """The gradients of queries, keys and values, in their shapes."""

    dq: Array
    dk: Array
    dv: Array


class Statistics(NamedTuple):
    """What the gradient of a panel's softmax needs, one element per query."""

    visible: Array  # (COLUMNS,) int64: the number of keys that the query sees
    logsumexp: Array  # (COLUMNS,)
    dots: Array  # (COLUMNS,): the dot products of dout and out


class KeyTile(NamedTuple):
    """The keys and values of a tile as left factors, and the sums of their gradients, panel by panel."""

    k_rows: Array
    v_rows: Array
    k_columns: Array  # transposed
    dk: Array
    dv: Array


class QueryTile(NamedTuple):
    """A panel of queries and of the arriving gradient, unpacked, as right factors and, transposed, as left factors."""

    rows: Array
    outputs: Array
    q_right: Array
    dout_right: Array
    q_columns: Array
    dout_columns: Array
    dq: Array  # the gradient of the queries of the panel
    statistics: Statistics


class Workspace(NamedTuple):
    """Memory for a tile of keys and a panel of queries."""

    keys: KeyTile
    queries: QueryTile
    scores: Array  # (keys of a tile, COLUMNS)
    slopes: Array  # their gradients
    slopes_right: Array
    block_right: Array  # COLUMNS x COLUMNS of the scores or the slopes, transposed
    mask: Array  # (keys of a tile, COLUMNS)
    drawn: Array  # (keys of a tile,)
    packing: PackScratch


@kernel
def backward_workspace(q: Array, packed: Array, size: int) -> Workspace:
    """Return uninitialised memory for heads of `size` elements, of the types of `q` and, packed, of `packed`."""
    height, kind = round_up(size, ROWS), q.dtype
    keys = KeyTile(
        memory_for(packed, KEYS, size),
        memory_for(packed, KEYS, size),
        memory_for(packed, height, KEYS),
        np.empty(KEYS * height, kind),
        np.empty(KEYS * height, kind),
    )
    queries = QueryTile(
        np.empty(COLUMNS * size, kind),
        np.empty(COLUMNS * size, kind),
        memory_for(packed, COLUMNS, size),
        memory_for(packed, COLUMNS, size),
        memory_for(packed, height, COLUMNS),
        memory_for(packed, height, COLUMNS),
        np.empty(height * COLUMNS, kind),
        Statistics(np.empty(COLUMNS, np.int64), np.empty(COLUMNS, kind), np.empty(COLUMNS, kind)),
    )
    return Workspace(
        keys,
        queries,
        np.empty(KEYS * COLUMNS, kind),
        np.empty(KEYS * COLUMNS, kind),
        memory_for(packed, COLUMNS, KEYS),
        memory_for(packed, COLUMNS, COLUMNS),
        np.empty(KEYS * COLUMNS, kind),
        np.empty(KEYS, kind),
        pack_scratch(q.reshape(-1)),
    )


@kernel
def softmax_gradient(scores: Array, slopes: Array, tile: Tile, scale: float, statistics: Statistics) -> None:
    """Compute P = exp(scale S - logsumexp) and dS = scale P (dP - dots), element by element and in place.

    `scores` holds the unscaled scores S and is overwritten by the probabilities P; `slopes` holds the gradient dP and
    is overwritten by dS. Both are tiles of keys x COLUMNS queries. Query j sees the first visible[j] keys of its
    sequence; P and dS of the other keys are 0.
    """
    visible, logsumexp, dots = statistics
    for i in range(tile.num_keys):
        for j in range(COLUMNS):
            place = i * COLUMNS + j
            p = exp(scores[place] * scale - logsumexp[j])
            scores[place] = p
            slopes[place] = p * (slopes[place] - dots[j]) * scale
    # Scores of -inf would not do: pairs that do not see each other must be 0 also where a query or a key is NaN.
    causal_mask(scores, tile, visible, 0.0)
    causal_mask(slopes, tile, visible, 0.0)


@kernel
def load_gradient(saved: Saved, visible: Array, panel: QueryPanel, heads: HeadGroup, queries: QueryTile) -> None:
    """Load the arriving gradient and the output of a panel into `rows` and `outputs`, and fill its statistics."""
    rows, outputs, logsumexp = queries.rows, queries.outputs, saved.logsumexp
    seen, logs, dots = queries.statistics
    size, group, zero = heads.size, heads.group, rows.dtype.type(0)
    load_queries(saved.out, panel, heads, outputs)
    load_queries(saved.dout, panel, heads, rows)
    for j in range(COLUMNS):
        r = panel.row + min(j, panel.num_rows - 1)
        position = panel.first + r // group
        seen[j], log = visible[position], logsumexp[position, heads.head * group + r % group]
        # Queries that see no key, and padding rows, use a logsumexp of 0.
        logs[j] = log if j < panel.num_rows and log > -np.inf else zero
        dot = zero
        for d in range(size):
            dot += rows[j * size + d] * outputs[j * size + d]
        dots[j] = dot


@kernel
def write_key_gradient(sums: Array, tile: Tile, heads: HeadGroup, gradient: Array, rows: Array) -> None:
    """Write sums of gradients, stored panel by panel, to the rows of a tile of keys; `rows` is scratch memory."""
    size, column = heads.size, heads.head * heads.size
    for i in range(0, tile.num_keys, COLUMNS):
        transpose(Matrix(sums, i * round_up(size, ROWS), COLUMNS, False, size, COLUMNS), rows)
        for r in range(min(COLUMNS, tile.num_keys - i)):
            for d in range(size):
                gradient[tile.begin + i + r, column + d] = rows[r * size + d]


@kernel
def load_panel(inputs: Inputs, saved: Saved, panel: QueryPanel, heads: HeadGroup, workspace: Workspace) -> Any:
    """Load and pack the queries of a panel and the arriving gradient; return whether both are finite."""
    queries, packing, size = workspace.queries, workspace.packing, heads.size
    height, rows = round_up(size, ROWS), queries.rows
    by_query, by_element = Matrix(rows, 0, size, False, COLUMNS, size), Matrix(rows, 0, size, True, size, COLUMNS)
    load_gradient(saved, inputs.visible, panel, heads, queries)
    finite = all_finite(by_query)
    pack_right(by_query, queries.dout_right, packing)
    pack_left(by_element, LeftFactor(queries.dout_columns, 0, height, COLUMNS), packing)
    load_queries(inputs.q, panel, heads, rows)
    pack_right(by_query, queries.q_right, packing)
    pack_left(by_element, LeftFactor(queries.q_columns, 0, height, COLUMNS), packing)
    return finite and all_finite(by_query)


@kernel
def add_tile_gradients(tile: Tile, k_columns: LeftFactor, workspace: Workspace) -> None:
    """Set the gradient of the queries of a panel, and add to those of the keys and values of a tile, in products."""
    keys, queries, scores, slopes, slopes_right, block_right, _, _, packing = workspace
    height = k_columns.rows
    q_columns = LeftFactor(queries.q_columns, 0, height, COLUMNS)
    dout_columns = LeftFactor(queries.dout_columns, 0, height, COLUMNS)
    slopes_factor = as_right(slopes, tile.num_keys, slopes_right, packing)
    panel_product(k_columns, slopes_factor, tile.num_keys, queries.dq, 0, False)
    for i in range(0, tile.num_keys, COLUMNS):
        pack_right(Matrix(scores, i * COLUMNS, COLUMNS, False, COLUMNS, COLUMNS), block_right, packing)
        panel_product(dout_columns, block_right, COLUMNS, keys.dv, i * height, True)
        pack_right(Matrix(slopes, i * COLUMNS, COLUMNS, False, COLUMNS, COLUMNS), block_right, packing)
        panel_product(q_columns, block_right, COLUMNS, keys.dk, i * height, True)


@kernel
def add_visible_gradients(
    inputs: Inputs, saved: Saved, tile: Tile, panel: QueryPanel, heads: HeadGroup, keys: Matrix, workspace: Workspace
) -> None:
    """Do the same pair by pair, where keys, queries or the arriving gradient are infinite or NaN."""
    queries, height = workspace.queries, round_up(heads.size, ROWS)
    visible, rows = queries.statistics.visible, Matrix(queries.rows, 0, heads.size, False, panel.num_rows, heads.size)
    queries.dq[:] = 0
    add_keys(workspace.slopes, tile, visible, keys, queries.dq)
    load_queries(saved.dout, panel, heads, queries.rows)
    add_rows(workspace.scores, tile, visible, rows, workspace.keys.dv, height)
    load_queries(inputs.q, panel, heads, queries.rows)
    add_rows(workspace.slopes, tile, visible, rows, workspace.keys.dk, height)


@kernel
def _attention_backward_tasks(inputs: Inputs, saved: Saved, gradients: Gradients, start: int, stop: int) -> None:
    """Write the gradients of the keys and values of tasks start to stop, and add those of the queries to dq."""
    q, k, v, _, _, visible, kv_heads, scale, draws, arithmetic = inputs
    flat_k, flat_v, width, size = k.reshape(-1), v.reshape(-1), k.shape[1], k.shape[1] // kv_heads
    height, zero, (dq, dk, dv) = round_up(size, ROWS), q.dtype.type(0), gradients
    workspace = backward_workspace(q, arithmetic.packed, size)
    keys, queries, scores, slopes, _, _, mask, drawn, packing = workspace
    configure_tiles(TILE_CONFIGURATION)
    for number in range(start, stop):
        heads, first, num_rows, first_key, num_keys = task_of(inputs, number)
        for begin in range(0, num_keys, KEYS):
            n, place = min(KEYS, num_keys - begin), (first_key + begin) * width + heads.head * size
            m, k_lines = round_up(n, COLUMNS), Matrix(flat_k, place, width, False, n, size)
            k_columns, k_is_finite = LeftFactor(keys.k_columns, 0, height, m), all_finite(k_lines)
            pack_left(k_lines, LeftFactor(keys.k_rows, 0, m, size), packing)
            pack_left(Matrix(flat_v, place, width, False, n, size), LeftFactor(keys.v_rows, 0, m, size), packing)
            pack_left(Matrix(flat_k, place, width, True, size, n), k_columns, packing)
            keys.dk[: m * height] = zero
            keys.dv[: m * height] = zero
            for row in range(0, num_rows, COLUMNS):
                panel = QueryPanel(first, row, min(COLUMNS, num_rows - row))
                most = visible[first + (row + panel.num_rows - 1) // heads.group]
                if most <= begin:
                    continue
                tile = Tile(begin, round_up(min(KEYS, most - begin), COLUMNS))
                is_finite = load_panel(inputs, saved, panel, heads, workspace) and k_is_finite
                panel_product(LeftFactor(keys.k_rows, 0, tile.num_keys, size), queries.q_right, size, scores, 0, False)
                panel_product(
                    LeftFactor(keys.v_rows, 0, tile.num_keys, size), queries.dout_right, size, slopes, 0, False
                )
                if draws.threshold > 0:
                    draw_panel(mask, drawn, tile, panel, heads, draws)
                    apply_mask(slopes, mask, tile)
                softmax_gradient(scores, slopes, tile, scale, queries.statistics)
                if draws.threshold > 0:
                    apply_mask(scores, mask, tile)
                if arithmetic.rounding:
                    round_panel(scores, tile)
                    round_panel(slopes, tile)
                if is_finite:
                    add_tile_gradients(tile, k_columns, workspace)
                else:
                    add_visible_gradients(inputs, saved, tile, panel, heads, k_lines, workspace)
                transpose(Matrix(queries.dq, 0, COLUMNS, False, size, COLUMNS), queries.rows)
                add_queries(queries.rows, panel, heads, dq)
            write_key_gradient(keys.dk, Tile(first_key + begin, n), heads, dk, queries.rows)
            write_key_gradient(keys.dv, Tile(first_key + begin, n), heads, dv, queries.rows)
    release_tiles(TILE_CONFIGURATION)


def attention_backward(
    dout: Array, q: Array, k: Array, v: Array, out: Array, logsumexp: Array, plan: Plan
) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v, in their shapes.

    `out` and `logsumexp` are what `attention_forward` returned for the same q, k, v and plan; `dout` has the shape of
    `out`. Keys that no query sees, and queries that see no key, get zero.
    """
    inputs, slopes = plan.inputs(q, k, v, dout), flat(dout)
    saved = Saved(round_bfloat16(slopes) if inputs.arithmetic.rounding else slopes, flat(out), logsumexp)
    gradients = Gradients(np.zeros_like(inputs.q), np.zeros_like(inputs.k), np.zeros_like(inputs.v))
    over_rows(
        lambda start, stop: _attention_backward_tasks(inputs, saved, gradients, start, stop),
        plan.num_tasks(k),
        2 * plan.work(q, k),
    )
    return gradients.dq.reshape(q.shape), gradients.dk.reshape(k.shape), gradients.dv.reshape(v.shape)
