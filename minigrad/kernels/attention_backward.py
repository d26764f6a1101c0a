"""The gradient of attention, tile by tile: probabilities are computed again, never stored for the whole sequence.

With probabilities $P$, what is mixed $O = P V$ and the gradient $dO$ that arrives: $dV = P^T dO$, $dP = dO V^T$,
$dS = P (dP - d)$ element by element, with $d$ the sums over the rows of $dO \\, O$, and then $dQ = dS K$ and
$dK = dS^T Q$, where dS counts the scale (Dao et al. 2022, appendix B.4). Five products for every tile of keys and panel
of queries. Tiles of keys are the outer loop: their gradients add up nearby, and the queries' are added to where they
belong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.kernels import kernel
from minigrad.kernels.exponential import exp
from minigrad.kernels.small_products import (
    COLUMNS,
    KEYS,
    ROWS,
    columns_as_slivers,
    draw_panel,
    load_queries,
    panel_product,
    rows_as_slivers,
    turn,
    whole,
)

Array = NDArray[Any]


@kernel
def softmax_slopes(
    scores: Array, slopes: Array, n: int, scale: float, seen: Array, begin: int, logs: Array, dots: Array
) -> None:
    """Turn scores into probabilities, and the gradients of probabilities into those of the products behind the scores.

    Both are tiles of n keys x COLUMNS queries; keys from seen[j] on are hidden from query j.
    """
    for i in range(n):
        for j in range(COLUMNS):
            place = i * COLUMNS + j
            p = exp(scores[place] * scale - logs[j])
            p = p if begin + i < seen[j] else scores.dtype.type(0)
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
    # Of the tile of keys: rows as slivers, columns as slivers, and the sums of the gradients, panel by panel.
    k_rows, v_rows = np.empty(KEYS * size, kind), np.empty(KEYS * size, kind)
    k_columns = np.empty(KEYS * height, kind)
    dk_sums, dv_sums = np.empty(KEYS * height, kind), np.empty(KEYS * height, kind)
    # Of the panel of queries: as it is, turned, columns as slivers, and its gradient.
    rows, room = np.empty(COLUMNS * size, kind), np.empty(COLUMNS * size, kind)
    q_turned, do_turned = np.empty(size * COLUMNS, kind), np.empty(size * COLUMNS, kind)
    q_columns, do_columns = np.empty(COLUMNS * height, kind), np.empty(COLUMNS * height, kind)
    dq_sums, seen = np.empty(height * COLUMNS, kind), np.empty(COLUMNS, np.int64)
    logs, dots = np.empty(COLUMNS, kind), np.empty(COLUMNS, kind)
    # Of both.
    scores, slopes, turned = (
        np.empty(KEYS * COLUMNS, kind),
        np.empty(KEYS * COLUMNS, kind),
        np.empty(KEYS * COLUMNS, kind),
    )
    mask, drawn = np.empty(KEYS * COLUMNS, kind), np.empty(KEYS, kind)
    for task in range(start, stop):
        sequence, head = task // kv_heads, task % kv_heads
        first_key, num_keys = keys[sequence, 0], keys[sequence, 1] - keys[sequence, 0]
        first, last = queries[sequence], queries[sequence + 1]
        num_rows, column = (last - first) * group, head * group * size
        dq[first:last, column : column + group * size] = zero
        for begin in range(0, num_keys, KEYS):
            held, place = min(KEYS, num_keys - begin), (first_key + begin) * width + head * size
            rows_as_slivers(flat_k, place, width, held, KEYS, size, k_rows, 0)
            rows_as_slivers(flat_v, place, width, held, KEYS, size, v_rows, 0)
            columns_as_slivers(flat_k, place, width, held, KEYS, size, k_columns, 0)
            dk_sums[:] = zero
            dv_sums[:] = zero
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
                    seen[j], logs[j] = visible[position], normaliser[position, head * group + query_head]
                    dot = zero
                    for d in range(size):
                        dot += rows[j * size + d] * room[j * size + d]
                    dots[j] = dot
                turn(rows, 0, size, COLUMNS, size, do_turned, 0, COLUMNS)
                columns_as_slivers(rows, 0, size, COLUMNS, COLUMNS, size, do_columns, 0)
                load_queries(q, first, row, count, group, column, size, rows)
                turn(rows, 0, size, COLUMNS, size, q_turned, 0, COLUMNS)
                columns_as_slivers(rows, 0, size, COLUMNS, COLUMNS, size, q_columns, 0)
                panel_product(k_rows, 0, size, n, q_turned, 0, size, scores, 0, False)
                panel_product(v_rows, 0, size, n, do_turned, 0, size, slopes, 0, False)
                if threshold > 0:
                    draw_panel(mask, drawn, n, first, row, count, group, head, kv_heads, begin, words, threshold, kept)
                    for i in range(n * COLUMNS):
                        slopes[i] *= mask[i]
                softmax_slopes(scores, slopes, n, scale, seen, begin, logs, dots)
                if threshold > 0:
                    for i in range(n * COLUMNS):
                        scores[i] *= mask[i]
                panel_product(k_columns, 0, KEYS, height, slopes, 0, n, dq_sums, 0, False)
                for panel in range(0, n, COLUMNS):
                    turn(scores, panel * COLUMNS, COLUMNS, COLUMNS, COLUMNS, turned, 0, COLUMNS)
                    panel_product(do_columns, 0, COLUMNS, height, turned, 0, COLUMNS, dv_sums, panel * height, True)
                    turn(slopes, panel * COLUMNS, COLUMNS, COLUMNS, COLUMNS, turned, 0, COLUMNS)
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
