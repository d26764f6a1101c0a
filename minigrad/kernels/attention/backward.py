"""The gradient of attention, tile by tile: probabilities are computed again, never stored for the whole sequence.

With probabilities $P$, attended values $O = P V$ and the arriving gradient $dO$: $dV = P^T dO$, $dP = dO V^T$,
$dS = P (dP - d)$ element by element, with $d$ the sums over the rows of $dO \\, O$, and then $dQ = dS K$ and
$dK = dS^T Q$, where dS includes the scale (Dao et al. 2022, appendix B.4). Five products for every tile of keys and
panel of queries. Tiles of keys are the outer loop: their gradients are summed in small buffers, and each panel's
gradient is added to that of its queries.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from minigrad.kernels.attention import tile_gradients as tiles
from minigrad.kernels.attention.factors import pack_left, transpose
from minigrad.kernels.attention.plan import (
    Denominators,
    Gradients,
    HeadGroup,
    Inputs,
    Plan,
    arithmetic_for,
    flat,
    task_of,
)
from minigrad.kernels.attention.queries import QueryPanel, add_queries, apply_mask, draw_panel, round_panel
from minigrad.kernels.attention.tile_gradients import Saved, Workspace
from minigrad.kernels.attention.tiles import COLUMNS, KEYS, ROWS, LeftFactor, Tile, lane_size, panel_product, round_up
from minigrad.kernels.attention.visible import packs_finite
from minigrad.kernels.codegen.amx import TILE_CONFIGURATION, configure_tiles, release_tiles
from minigrad.kernels.gemm.backend import rounds
from minigrad.kernels.gemm.narrow import round_bfloat16
from minigrad.kernels.gemm.packing import Matrix
from minigrad.kernels.jit import allocating, kernel
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def write_key_gradient(sums: Array, tile: Tile, heads: HeadGroup, gradient: Array, rows: Array) -> None:
    """Write sums of gradients, stored panel by panel, to the rows of a tile of keys; `rows` is scratch memory."""
    size, column = heads.size, heads.head * heads.size
    for i in range(0, tile.num_keys, COLUMNS):
        transpose(Matrix(sums, i * round_up(size, ROWS), COLUMNS, False, size, COLUMNS), rows)
        for r in range(min(COLUMNS, tile.num_keys - i)):
            row, line = rows[r * size : (r + 1) * size], gradient[tile.begin + i + r, column : column + size]
            for d in range(size):
                line[d] = row[d]


@kernel
def _add_gradients_in(
    inputs: Inputs, saved: Saved, gradients: Gradients, start: int, stop: int, memory: Workspace
) -> None:
    """Write the gradients of the keys and values of tasks start to stop, and add those by the queries to dq."""
    q, k, v, _, _, seen, kv_heads, scale, draws, arithmetic = inputs
    flat_k, flat_v, width, size = k.reshape(-1), v.reshape(-1), k.shape[1], k.shape[1] // kv_heads
    height, zero, (dq, dk, dv) = round_up(size, ROWS), q.dtype.type(0), gradients
    scores, slopes, mask, drawn, packing = memory.scores, memory.slopes, memory.mask, memory.drawn, memory.packing
    configure_tiles(TILE_CONFIGURATION)
    for number in range(start, stop):
        heads, first, num_rows, first_key, num_keys = task_of(inputs, number)
        for begin in range(0, num_keys, KEYS):
            n, place = min(KEYS, num_keys - begin), (first_key + begin) * width + heads.head * size
            m, k_lines = round_up(n, COLUMNS), Matrix(flat_k, place, width, False, n, size)
            k_columns = LeftFactor(memory.k_columns, 0, height, m)
            k_is_finite = packs_finite(memory.k_columns, k_lines)
            pack_left(k_lines, LeftFactor(memory.k_rows, 0, m, size), packing)
            pack_left(Matrix(flat_v, place, width, False, n, size), LeftFactor(memory.v_rows, 0, m, size), packing)
            pack_left(Matrix(flat_k, place, width, True, size, n), k_columns, packing)
            memory.dk[: m * height] = zero
            memory.dv[: m * height] = zero
            for row in range(0, num_rows, COLUMNS):
                panel = QueryPanel(first, row, min(COLUMNS, num_rows - row))
                most = seen.visible[first + (row + panel.num_rows - 1) // heads.group]
                least = seen.first[first + row // heads.group]
                if most <= max(begin, least // COLUMNS * COLUMNS):
                    continue  # no query of the panel sees a key of this tile
                if least >= begin + n:
                    break  # neither number decreases: no later panel sees a key of this tile
                skipped = max(least // COLUMNS * COLUMNS - begin, 0)
                tile = Tile(begin + skipped, round_up(min(KEYS, most - begin) - skipped, ROWS))
                k_rows = LeftFactor(memory.k_rows, skipped * lane_size(memory.k_rows, size), tile.num_keys, size)
                v_rows = LeftFactor(memory.v_rows, skipped * lane_size(memory.v_rows, size), tile.num_keys, size)
                is_finite = tiles.load_panel(inputs, saved, panel, heads, memory) and k_is_finite
                panel_product(k_rows, memory.q_right, size, scores, 0, False)
                panel_product(v_rows, memory.dout_right, size, slopes, 0, False)
                if draws.threshold > 0:
                    draw_panel(mask, drawn, tile, panel, heads, draws)
                    apply_mask(slopes, mask, tile)
                tiles.softmax_gradient(scores, slopes, tile, scale, memory.statistics)
                if draws.threshold > 0:
                    apply_mask(scores, mask, tile)
                if arithmetic.rounding:
                    round_panel(scores, tile)
                    round_panel(slopes, tile)
                if is_finite:
                    tiles.add_tile_gradients(tile, k_columns, memory)
                else:
                    lines = Matrix(flat_k, place + skipped * width, width, False, n - skipped, size)
                    tiles.add_visible_gradients(inputs, saved, tile, panel, heads, lines, memory)
                transpose(Matrix(memory.dq, 0, COLUMNS, False, size, COLUMNS), memory.rows)
                add_queries(memory.rows, panel, heads, dq)
            write_key_gradient(memory.dk, Tile(first_key + begin, n), heads, dk, memory.rows)
            write_key_gradient(memory.dv, Tile(first_key + begin, n), heads, dv, memory.rows)
    release_tiles()


@allocating
def _attention_backward_tasks(inputs: Inputs, saved: Saved, gradients: Gradients, start: int, stop: int) -> None:
    """Do what `_add_gradients_in` does, in a workspace of its own."""
    size = inputs.k.shape[1] // inputs.kv_heads
    memory = tiles.backward_workspace(inputs.q, inputs.arithmetic.packed, size)
    _add_gradients_in(inputs, saved, gradients, start, stop, memory)


def attention_backward(
    dout: Array, q: Array, k: Array, v: Array, out: Array, denominators: Denominators, plan: Plan
) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v, in their shapes.

    `out` and `denominators` are what `attention_forward` returned for the same q, k, v and plan; `dout` has the shape
    of `out`. Keys that no query sees, and queries that see no key, get zero.
    """
    inputs, slopes = plan.inputs(arithmetic_for(q, k, v, dout), q, k, v), flat(dout)
    # Not only where the loops multiply rounded float32: where they pack pairs of bfloat16, the sums of dout * out must
    # see the same rounded elements as the products with v, or what both have in common does not cancel.
    slopes = round_bfloat16(slopes) if rounds(q.dtype) else slopes
    saved = Saved(slopes, flat(out), denominators)
    gradients = Gradients(np.zeros_like(inputs.q), np.zeros_like(inputs.k), np.zeros_like(inputs.v))
    loop = partial(_attention_backward_tasks, inputs, saved, gradients)
    over_rows(loop, plan.num_tasks(k), 2 * plan.work(q, k))
    return gradients.dq.reshape(q.shape), gradients.dk.reshape(k.shape), gradients.dv.reshape(v.shape)
