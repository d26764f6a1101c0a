"""The gradient of attention, tile by tile: probabilities are computed again, never stored for the whole sequence.

With probabilities $P$, what is mixed $O = P V$ and the gradient $dO$ that arrives: $dV = P^T dO$, $dP = dO V^T$,
$dS = P (dP - d)$ element by element, with $d$ the sums over the rows of $dO \\, O$, and then $dQ = dS K$ and
$dK = dS^T Q$, where dS counts the scale (Dao et al. 2022, appendix B.4). Five products for every tile of keys and panel
of queries. Tiles of keys are the outer loop: their gradients add up nearby, and the queries' are added to where they
belong.
"""

from __future__ import annotations

import numpy as np

from minigrad.kernels.attention.operands import as_right, pack_left, pack_right, room_for, turn
from minigrad.kernels.attention.tiles import COLUMNS, KEYS, ROWS, draw_panel, hide, load_queries, panel_product, whole
from minigrad.kernels.codegen.amx import TILE_SHAPES, begin_blocks, end_blocks
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.typing import Array


@kernel
def softmax_slopes(
    scores: Array, slopes: Array, n: int, scale: float, seen: Array, begin: int, logs: Array, dots: Array
) -> None:
    """Turn scores into probabilities, and the gradients of probabilities into those of the products behind the scores.

    Both are tiles of n keys x COLUMNS queries; keys from seen[j] on are hidden from query j.
    """
    hide(scores, n, seen, begin)
    for i in range(n):
        for j in range(COLUMNS):
            place = i * COLUMNS + j
            p = exp(scores[place] * scale - logs[j])
            scores[place] = p
            slopes[place] = p * (slopes[place] - dots[j]) * scale


@kernel
def attention_backward_tasks(
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    normaliser: Array,
    queries: Array,
    keys: Array,
    visible: Array,
    words: Array,
    threshold: int,
    kept: float,
    kv_heads: int,
    scale: float,
    dq: Array,
    dk: Array,
    dv: Array,
    start: int,
    stop: int,
) -> None:
    """Write the gradients of the tasks start to stop into dq, dk and dv; a task is a sequence and a key/value head."""
    group, size, width = normaliser.shape[1] // kv_heads, k.shape[1] // kv_heads, k.shape[1]
    height, flat_k, flat_v, kind = whole(size, ROWS), k.reshape(-1), v.reshape(-1), q.dtype
    zero = kind.type(0)
    # Of the tile of keys: left factors, as they are and lying across, and the sums of the gradients, panel by panel.
    k_rows, v_rows, k_columns = room_for(q, KEYS, size), room_for(q, KEYS, size), room_for(q, height, KEYS)
    dk_sums, dv_sums = np.empty(KEYS * height, kind), np.empty(KEYS * height, kind)
    # Of the panel of queries: as it is, as right factors, as left ones lying across, and its gradient.
    rows, room = np.empty(COLUMNS * size, kind), np.empty(COLUMNS * size, kind)
    q_right, do_right = room_for(q, COLUMNS, size), room_for(q, COLUMNS, size)
    q_columns, do_columns = room_for(q, height, COLUMNS), room_for(q, height, COLUMNS)
    dq_sums, seen = np.empty(height * COLUMNS, kind), np.empty(COLUMNS, np.int64)
    logs, dots = np.empty(COLUMNS, kind), np.empty(COLUMNS, kind)
    # Of both.
    scores, slopes = np.empty(KEYS * COLUMNS, kind), np.empty(KEYS * COLUMNS, kind)
    right, turned = room_for(q, COLUMNS, KEYS), room_for(q, COLUMNS, COLUMNS)
    edge, square = np.empty(2 * SIDE * SIDE, kind), np.empty(3 * SIDE * SIDE, np.uint32)
    begin_blocks(TILE_SHAPES)
    mask, drawn = np.empty(KEYS * COLUMNS, kind), np.empty(KEYS, kind)
    for task in range(start, stop):
        sequence, head = task // kv_heads, task % kv_heads
        first_key, num_keys = keys[sequence, 0], keys[sequence, 1] - keys[sequence, 0]
        first, last = queries[sequence], queries[sequence + 1]
        num_rows, column = (last - first) * group, head * group * size
        dq[first:last, column : column + group * size] = zero
        for begin in range(0, num_keys, KEYS):
            held, place = min(KEYS, num_keys - begin), (first_key + begin) * width + head * size
            m = whole(held, COLUMNS)
            pack_left(flat_k, place, width, False, held, size, m, size, k_rows, 0, edge, square)
            pack_left(flat_v, place, width, False, held, size, m, size, v_rows, 0, edge, square)
            pack_left(flat_k, place, width, True, size, held, height, m, k_columns, 0, edge, square)
            dk_sums[: m * height] = zero
            dv_sums[: m * height] = zero
            for row in range(0, num_rows, COLUMNS):
                count = min(COLUMNS, num_rows - row)
                most = visible[first + (row + count - 1) // group]
                if most <= begin:
                    continue
                n = whole(min(KEYS, most - begin), COLUMNS)
                load_queries(out, first, row, count, group, column, size, room)
                load_queries(dout, first, row, count, group, column, size, rows)
                for j in range(COLUMNS):
                    position, query_head = first + (row + min(j, count - 1)) // group, (row + min(j, count - 1)) % group
                    seen[j], log = visible[position], normaliser[position, head * group + query_head]
                    # A query that sees nothing has none, and what fills the panel up has scores of its own: zeros.
                    logs[j] = log if j < count and log > -np.inf else zero
                    dot = zero
                    for d in range(size):
                        dot += rows[j * size + d] * room[j * size + d]
                    dots[j] = dot
                pack_right(rows, 0, size, size, do_right, edge, square)
                pack_left(rows, 0, size, True, size, COLUMNS, height, COLUMNS, do_columns, 0, edge, square)
                load_queries(q, first, row, count, group, column, size, rows)
                pack_right(rows, 0, size, size, q_right, edge, square)
                pack_left(rows, 0, size, True, size, COLUMNS, height, COLUMNS, q_columns, 0, edge, square)
                panel_product(k_rows, 0, size, n, q_right, 0, size, scores, 0, False)
                panel_product(v_rows, 0, size, n, do_right, 0, size, slopes, 0, False)
                if threshold > 0:
                    draw_panel(mask, drawn, n, first, row, count, group, head, kv_heads, begin, words, threshold, kept)
                    for i in range(n * COLUMNS):
                        slopes[i] *= mask[i]
                softmax_slopes(scores, slopes, n, scale, seen, begin, logs, dots)
                if threshold > 0:
                    for i in range(n * COLUMNS):
                        scores[i] *= mask[i]
                ds_right = as_right(slopes, n, right, edge, square)
                panel_product(k_columns, 0, m, height, ds_right, 0, n, dq_sums, 0, False)
                for panel in range(0, n, COLUMNS):
                    pack_right(scores, panel * COLUMNS, COLUMNS, COLUMNS, turned, edge, square)
                    panel_product(do_columns, 0, COLUMNS, height, turned, 0, COLUMNS, dv_sums, panel * height, True)
                    pack_right(slopes, panel * COLUMNS, COLUMNS, COLUMNS, turned, edge, square)
                    panel_product(q_columns, 0, COLUMNS, height, turned, 0, COLUMNS, dk_sums, panel * height, True)
                turn(dq_sums, 0, COLUMNS, size, COLUMNS, rows, 0, size)
                for r in range(count):
                    position, query_head = first + (row + r) // group, (row + r) % group
                    for d in range(size):
                        dq[position, column + query_head * size + d] += rows[r * size + d]
            for panel in range(0, held, COLUMNS):
                for sums, gradient in ((dk_sums, dk), (dv_sums, dv)):
                    turn(sums, panel * height, COLUMNS, size, COLUMNS, rows, 0, size)
                    for r in range(min(COLUMNS, held - panel)):
                        for d in range(size):
                            gradient[first_key + begin + panel + r, head * size + d] = rows[r * size + d]
    end_blocks(TILE_SHAPES)
