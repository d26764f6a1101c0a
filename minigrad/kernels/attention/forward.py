"""Causal grouped-query attention, tile by tile, with the online softmax.

The scores of a whole sequence, T x T numbers, are never stored. A panel of queries meets the keys tile by tile; a
running maximum and a running sum per query make the softmax exact all the same (Milakov and Gimelshein 2018, arXiv
1805.02867; Dao et al. 2022, "FlashAttention", arXiv 2205.14135). The backward pass computes each tile of
probabilities again from the scores and the saved logarithm of the sum.

All query heads of a group share their keys and values, so they sit in one panel: query row r of a sequence is position
r // group, head r % group. One task is one sequence and one key/value head; tasks share nothing they write. Scores
are keys x queries: what the softmax does to the queries of a panel, it does to all of them at once.

How many keys each query sees is given as a number per row, `visible`, that rises within a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.kernels.attention.backward import attention_backward_tasks
from minigrad.kernels.attention.operands import as_right, pack_left, pack_right, room_for, turn
from minigrad.kernels.attention.tiles import (
    COLUMNS,
    KEYS,
    ROWS,
    draw_panel,
    extent,
    hide,
    load_queries,
    panel_product,
    whole,
)
from minigrad.kernels.codegen.amx import TILE_SHAPES, begin_blocks, end_blocks
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.dropout import draws_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def softmax_step(
    scores: Array,
    n: int,
    scale: float,
    seen: Array,
    begin: int,
    largest: Array,
    total: Array,
    shrink: Array,
    top: Array,
) -> None:
    """Turn a tile of scores (n keys x COLUMNS queries) into exponentials, and bring the running sums up to date.

    Keys from seen[j] on are hidden from query j; n is a multiple of 4. The maximum may have grown; `shrink` is what
    everything added so far is to be multiplied with, to be on the new scale. `top` is room for the new maxima.
    """
    hide(scores, n, seen, begin)
    for j in range(COLUMNS):
        top[j] = -np.inf
    for i in range(n // 4):  # four keys at a time, because each maximum, and each sum, waits for the one before it
        place = i * 4 * COLUMNS
        for j in range(COLUMNS):
            a, b = scores[place + j], scores[place + COLUMNS + j]
            c, d = scores[place + 2 * COLUMNS + j], scores[place + 3 * COLUMNS + j]
            top[j] = max(top[j], max(max(a, b), max(c, d)))
    for j in range(COLUMNS):
        before = largest[j]
        largest[j] = max(before, top[j] * scale)
        # A query that has seen nothing yet has no maximum; any number will do, its exponentials are all zero.
        top[j] = largest[j] if largest[j] > -np.inf else scores.dtype.type(0)
        shrink[j] = exp(before - top[j])
        total[j] *= shrink[j]
    for i in range(n // 4):
        place = i * 4 * COLUMNS
        for j in range(COLUMNS):
            a = exp(scores[place + j] * scale - top[j])
            b = exp(scores[place + COLUMNS + j] * scale - top[j])
            c = exp(scores[place + 2 * COLUMNS + j] * scale - top[j])
            d = exp(scores[place + 3 * COLUMNS + j] * scale - top[j])
            scores[place + j], scores[place + COLUMNS + j] = a, b
            scores[place + 2 * COLUMNS + j], scores[place + 3 * COLUMNS + j] = c, d
            total[j] += (a + b) + (c + d)


@kernel
def _attention_tasks(
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
    start: int,
    stop: int,
) -> None:
    group, size, width = normaliser.shape[1] // kv_heads, k.shape[1] // kv_heads, k.shape[1]
    height, flat_k, flat_v, zero = whole(size, ROWS), k.reshape(-1), v.reshape(-1), q.dtype.type(0)
    rows, q_right, right = np.empty(COLUMNS * size, q.dtype), room_for(q, COLUMNS, size), room_for(q, COLUMNS, KEYS)
    edge, square = np.empty(2 * SIDE * SIDE, q.dtype), np.empty(3 * SIDE * SIDE, np.uint32)
    scores, mixed = np.empty(KEYS * COLUMNS, q.dtype), np.empty(height * COLUMNS, q.dtype)
    largest, total, seen = np.empty(COLUMNS, q.dtype), np.empty(COLUMNS, q.dtype), np.empty(COLUMNS, np.int64)
    shrink, top = np.empty(COLUMNS, q.dtype), np.empty(COLUMNS, q.dtype)
    mask, drawn = np.empty(KEYS * COLUMNS, q.dtype), np.empty(KEYS, q.dtype)
    begin_blocks(TILE_SHAPES)
    for task in range(start, stop):
        sequence, head = task // kv_heads, task % kv_heads
        first_key, num_keys = keys[sequence, 0], keys[sequence, 1] - keys[sequence, 0]
        first, num_rows = queries[sequence], (queries[sequence + 1] - queries[sequence]) * group
        # Tile by tile, keys are left factors of the scores, and values, lying across, of the mixture.
        tiles = whole(num_keys, KEYS) // KEYS
        k_left, v_left = room_for(q, tiles * KEYS, size), room_for(q, height, tiles * KEYS)
        k_size, v_size = KEYS * extent(k_left, size), height * extent(v_left, KEYS)
        for tile in range(tiles):
            n, place = min(KEYS, num_keys - tile * KEYS), (first_key + tile * KEYS) * width + head * size
            k_place, v_place = tile * k_size, tile * v_size
            m = whole(n, COLUMNS)
            pack_left(flat_k, place, width, False, n, size, m, size, k_left, k_place, edge, square)
            pack_left(flat_v, place, width, True, size, n, height, m, v_left, v_place, edge, square)
        for row in range(0, num_rows, COLUMNS):
            count = min(COLUMNS, num_rows - row)
            load_queries(q, first, row, count, group, head * group * size, size, rows)
            pack_right(rows, 0, size, size, q_right, edge, square)
            for j in range(COLUMNS):
                seen[j] = visible[first + (row + min(j, count - 1)) // group]
                largest[j], total[j] = -np.inf, zero
            mixed[:] = zero
            for begin in range(0, seen[COLUMNS - 1], KEYS):
                n, tile = whole(min(KEYS, seen[COLUMNS - 1] - begin), ROWS), begin // KEYS
                m = whole(min(KEYS, num_keys - begin), COLUMNS)
                panel_product(k_left, tile * k_size, size, n, q_right, 0, size, scores, 0, False)
                softmax_step(scores, n, scale, seen, begin, largest, total, shrink, top)
                if threshold > 0:
                    draw_panel(mask, drawn, n, first, row, count, group, head, kv_heads, begin, words, threshold, kept)
                    for i in range(n * COLUMNS):
                        scores[i] *= mask[i]
                for i in range(height):
                    for j in range(COLUMNS):
                        mixed[i * COLUMNS + j] *= shrink[j]
                p_right = as_right(scores, n, right, edge, square)
                panel_product(v_left, tile * v_size, m, height, p_right, 0, n, mixed, 0, True)
            turn(mixed, 0, COLUMNS, size, COLUMNS, rows, 0, size)
            for r in range(count):
                position, query_head = first + (row + r) // group, head * group + (row + r) % group
                inverse, log = zero, q.dtype.type(-np.inf)  # a query may see nothing
                if total[r] != zero:
                    inverse, log = q.dtype.type(1) / total[r], largest[r] + np.log(total[r])
                normaliser[position, query_head] = log
                for d in range(size):
                    out[position, query_head * size + d] = rows[r * size + d] * inverse
    end_blocks(TILE_SHAPES)


def _flat(x: Array) -> Array:
    return rows_of(x, x.shape[1] * x.shape[2])


@dataclass(frozen=True)
class Plan:
    """Who sees what: sequence s has query rows offsets[s]:offsets[s + 1], and keys in rows ranges[s, 0]:ranges[s, 1].

    Of these, query row r sees the first `visible[r]`. Each probability is dropped with the chance `dropout`, by draws
    that are a function of (`key`, `step`, `index`) and of query, head and key.
    Shapes: offsets (S + 1,), ranges (S, 2), visible (rows,), all int64.
    """

    offsets: Array
    ranges: Array
    visible: Array
    scale: float
    dropout: float = 0.0
    key: int = 0
    step: int = 0
    index: int = 0

    def arguments(self, dtype: Any, kv_heads: int) -> tuple[Any, ...]:
        """Return what both loops are told."""
        words, threshold = draws_of(self.dropout, self.key, self.step, self.index)
        kept = dtype.type(1 / (1 - self.dropout))
        return self.offsets, self.ranges, self.visible, words, threshold, kept, kv_heads, dtype.type(self.scale)

    def work(self, q: Array) -> int:
        """Estimate the element operations of one task, to decide whether threads pay."""
        sequences = max(len(self.offsets) - 1, 1)
        longest = int((self.ranges[:, 1] - self.ranges[:, 0]).max(initial=0))
        return (q.size // sequences) * longest // 8


def attention_forward(q: Array, k: Array, v: Array, plan: Plan) -> tuple[Array, Array]:
    """Return the attended values (rows, H, D) and each query head's log of the sum of exponentials (rows, H)."""
    queries, keys, values, kv_heads = _flat(q), _flat(k), _flat(v), k.shape[1]
    out, normaliser = np.empty_like(queries), np.empty(q.shape[:2], q.dtype)
    loop: Any = _attention_tasks
    arguments = (queries, keys, values, out, normaliser, *plan.arguments(q.dtype, kv_heads))
    over_rows(lambda a, b: loop(*arguments, a, b), (len(plan.offsets) - 1) * kv_heads, plan.work(q))
    return out.reshape(q.shape), normaliser


def attention_backward(
    dout: Array, q: Array, k: Array, v: Array, out: Array, normaliser: Array, plan: Plan
) -> tuple[Array, Array, Array]:
    """Return the gradients by q, k and v; keys that belong to no sequence get zero."""
    kv_heads = k.shape[1]
    loop: Any = attention_backward_tasks
    given = [_flat(array) for array in (dout, q, k, v, out)]
    dq, dk, dv = np.empty_like(given[1]), np.zeros_like(given[2]), np.zeros_like(given[3])
    arguments = (*given, normaliser, *plan.arguments(q.dtype, kv_heads), dq, dk, dv)
    over_rows(lambda a, b: loop(*arguments, a, b), (len(plan.offsets) - 1) * kv_heads, 2 * plan.work(q))
    return dq.reshape(q.shape), dk.reshape(k.shape), dv.reshape(v.shape)
