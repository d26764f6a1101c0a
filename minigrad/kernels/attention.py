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
from numpy.typing import NDArray

from minigrad.kernels import kernel, rows_of
from minigrad.kernels.attention_backward import attention_backward_tasks
from minigrad.kernels.dropout import draws_of
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
from minigrad.kernels.threads import over_rows

Array = NDArray[Any]


@kernel
def softmax_step(
    scores: Array, n: int, scale: float, seen: Array, begin: int, largest: Array, total: Array, shrink: Array
) -> None:
    """Turn a tile of scores (n keys x COLUMNS queries) into exponentials, and bring the running sums up to date.

    Keys from seen[j] on are hidden from query j. The maximum may have grown; `shrink` is what everything added so far
    is to be multiplied with, to be on the new scale.
    """
    for j in range(COLUMNS):
        shrink[j] = largest[j]
    for i in range(n):
        for j in range(COLUMNS):
            score = scores[i * COLUMNS + j] * scale if begin + i < seen[j] else -np.inf
            scores[i * COLUMNS + j] = score
            largest[j] = max(largest[j], score)
    for j in range(COLUMNS):
        # A query that has seen nothing yet has no maximum; any number will do, its exponentials are all zero.
        top = largest[j] if largest[j] > -np.inf else scores.dtype.type(0)
        shrink[j] = exp(shrink[j] - top)
        total[j] *= shrink[j]
    for i in range(n):
        for j in range(COLUMNS):
            top = largest[j] if largest[j] > -np.inf else scores.dtype.type(0)
            e = exp(scores[i * COLUMNS + j] - top)
            scores[i * COLUMNS + j] = e
            total[j] += e


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
    rows, turned = np.empty(COLUMNS * size, q.dtype), np.empty(size * COLUMNS, q.dtype)
    scores, mixed = np.empty(KEYS * COLUMNS, q.dtype), np.empty(height * COLUMNS, q.dtype)
    largest, total, seen = np.empty(COLUMNS, q.dtype), np.empty(COLUMNS, q.dtype), np.empty(COLUMNS, np.int64)
    shrink, mask, drawn = np.empty(COLUMNS, q.dtype), np.empty(KEYS * COLUMNS, q.dtype), np.empty(KEYS, q.dtype)
    for task in range(start, stop):
        sequence, head = task // kv_heads, task % kv_heads
        first_key, num_keys = keys[sequence, 0], keys[sequence, 1] - keys[sequence, 0]
        first, num_rows = queries[sequence], (queries[sequence + 1] - queries[sequence]) * group
        # Tile by tile, keys as slivers of rows for the scores, values as slivers of columns for the mixture.
        k_slivers = np.empty(whole(num_keys, KEYS) * size, q.dtype)
        v_slivers = np.empty(whole(num_keys, KEYS) * height, q.dtype)
        for begin in range(0, num_keys, KEYS):
            n, place = min(KEYS, num_keys - begin), (first_key + begin) * width + head * size
            rows_as_slivers(flat_k, place, width, n, whole(n, ROWS), size, k_slivers, begin * size)
            columns_as_slivers(flat_v, place, width, n, KEYS, size, v_slivers, begin * height)
        for row in range(0, num_rows, COLUMNS):
            count = min(COLUMNS, num_rows - row)
            load_queries(q, first, row, count, group, head * group * size, size, rows)
            turn(rows, 0, size, COLUMNS, size, turned, 0, COLUMNS)
            for j in range(COLUMNS):
                seen[j] = visible[first + (row + min(j, count - 1)) // group]
                largest[j], total[j] = -np.inf, zero
            mixed[:] = zero
            for begin in range(0, seen[COLUMNS - 1], KEYS):
                n = whole(min(KEYS, seen[COLUMNS - 1] - begin), ROWS)
                panel_product(k_slivers, begin * size, size, n, turned, 0, size, scores, 0, False)
                softmax_step(scores, n, scale, seen, begin, largest, total, shrink)
                if threshold > 0:
                    draw_panel(mask, drawn, n, first, row, count, group, head, kv_heads, begin, words, threshold, kept)
                    for i in range(n * COLUMNS):
                        scores[i] *= mask[i]
                for i in range(height):
                    for j in range(COLUMNS):
                        mixed[i * COLUMNS + j] *= shrink[j]
                panel_product(v_slivers, begin * height, KEYS, height, scores, 0, n, mixed, 0, True)
            turn(mixed, 0, COLUMNS, size, COLUMNS, rows, 0, size)
            for r in range(count):
                position, query_head = first + (row + r) // group, head * group + (row + r) % group
                normaliser[position, query_head] = largest[r] + np.log(total[r])
                inverse = zero if total[r] == zero else q.dtype.type(1) / total[r]  # a query may see nothing
                for d in range(size):
                    out[position, query_head * size + d] = rows[r * size + d] * inverse


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
