"""Causal grouped-query attention, tile by tile, with the online softmax.

The scores of a whole sequence, T x T numbers, are never stored. A tile of queries meets the keys tile by tile; a
running maximum and a running sum per query make the softmax exact all the same (Milakov and Gimelshein 2018, arXiv
1805.02867; Dao et al. 2022, "FlashAttention", arXiv 2205.14135). The backward pass computes each tile of
probabilities again from the scores and the saved logarithm of the sum.

All query heads of a group share their keys and values, so they sit in one tile: row r of a tile is query
position r // group, head r % group. One task is one sequence and one key/value head; tasks share nothing they write.

How many keys each query sees is given as a number per row, `visible`, that rises within a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.kernels import kernel, rows_of
from minigrad.kernels.dropout import draw_mask, draws_of
from minigrad.kernels.exponential import exp
from minigrad.kernels.maximum import LANES, row_maximum
from minigrad.kernels.threads import over_rows
from minigrad.kernels.tiles import add_product, add_transposed_product, load_columns, load_rows

Array = NDArray[Any]

_QUERIES = 96  # rows of a query tile (positions times heads in the group)
_KEYS = 128  # keys of a tile


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
    group = normaliser.shape[1] // kv_heads
    size = k.shape[1] // kv_heads
    positions = max(1, _QUERIES // group)
    zero, lowest = q.dtype.type(0), q.dtype.type(-np.inf)
    rows = positions * group
    q_tile, o_tile = np.empty((rows, size), q.dtype), np.empty((rows, size), q.dtype)
    k_tile, v_tile = np.empty((size, _KEYS), q.dtype), np.empty((_KEYS, size), q.dtype)
    scores = np.empty((rows, _KEYS), q.dtype)
    largest, total = np.empty(rows, q.dtype), np.empty(rows, q.dtype)
    lanes, mask = np.empty(LANES, q.dtype), np.empty(_KEYS, q.dtype)
    for task in range(start, stop):
        sequence, head = task // kv_heads, task % kv_heads
        first_key = keys[sequence, 0]
        for first in range(queries[sequence], queries[sequence + 1], positions):
            count = min(positions, queries[sequence + 1] - first)
            m = count * group
            most = visible[first + count - 1]  # keys that any query of the tile may see
            load_rows(q, first, count, group, head * group * size, size, q_tile)
            for r in range(m):
                largest[r], total[r] = lowest, zero
                for d in range(size):
                    o_tile[r, d] = zero
            for begin in range(0, most, _KEYS):
                n = min(_KEYS, most - begin)
                load_columns(k, first_key + begin, n, head * size, size, k_tile)
                load_rows(v, first_key + begin, n, 1, head * size, size, v_tile)
                for r in range(m):
                    for j in range(n):
                        scores[r, j] = zero
                add_product(q_tile, k_tile, scores, m, size, n)
                for r in range(m):
                    seen = min(n, visible[first + r // group] - begin)
                    if seen > 0:
                        top = max(largest[r], row_maximum(scores, r, seen, lanes) * scale)
                        # The maximum may have grown: bring what was added so far onto the new scale.
                        shrink = exp(largest[r] - top)
                        added = zero
                        for j in range(seen):
                            e = exp(scores[r, j] * scale - top)
                            scores[r, j] = e
                            added += e
                        total[r] = total[r] * shrink + added
                        largest[r] = top
                        for d in range(size):
                            o_tile[r, d] *= shrink
                        if threshold > 0:
                            place = (first + r // group) * normaliser.shape[1] + head * group + r % group
                            draw_mask(mask, seen, begin // 4, place, words, threshold, kept)
                            for j in range(seen):
                                scores[r, j] *= mask[j]
                    for j in range(max(seen, 0), n):
                        scores[r, j] = zero
                add_product(scores, v_tile, o_tile, m, n, size)
            for r in range(m):
                row, query_head = first + r // group, head * group + r % group
                normaliser[row, query_head] = largest[r] + np.log(total[r])
                inverse = zero if total[r] == zero else q.dtype.type(1) / total[r]  # a query may see nothing
                for d in range(size):
                    out[row, query_head * size + d] = o_tile[r, d] * inverse


@kernel
def _attention_backward_tasks(
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
    group = normaliser.shape[1] // kv_heads
    size = k.shape[1] // kv_heads
    positions = max(1, _QUERIES // group)
    zero = q.dtype.type(0)
    rows = positions * group
    q_tile, do_tile = np.empty((rows, size), q.dtype), np.empty((rows, size), q.dtype)
    dq_tile, k_tile = np.empty((rows, size), q.dtype), np.empty((_KEYS, size), q.dtype)
    kt_tile, vt_tile = np.empty((size, _KEYS), q.dtype), np.empty((size, _KEYS), q.dtype)
    weights, slopes = np.empty((rows, _KEYS), q.dtype), np.empty((rows, _KEYS), q.dtype)
    dots, mask = np.empty(rows, q.dtype), np.empty(_KEYS, q.dtype)
    for task in range(start, stop):
        sequence, head = task // kv_heads, task % kv_heads
        first_key, num_keys = keys[sequence, 0], keys[sequence, 1] - keys[sequence, 0]
        dk_sum, dv_sum = np.zeros((num_keys, size), q.dtype), np.zeros((num_keys, size), q.dtype)
        for first in range(queries[sequence], queries[sequence + 1], positions):
            count = min(positions, queries[sequence + 1] - first)
            m = count * group
            most = visible[first + count - 1]
            load_rows(q, first, count, group, head * group * size, size, q_tile)
            load_rows(dout, first, count, group, head * group * size, size, do_tile)
            for r in range(m):
                row, column = first + r // group, (head * group + r % group) * size
                dot = zero
                for d in range(size):
                    dot += do_tile[r, d] * out[row, column + d]
                    dq_tile[r, d] = zero
                dots[r] = dot
            for begin in range(0, most, _KEYS):
                n = min(_KEYS, most - begin)
                load_rows(k, first_key + begin, n, 1, head * size, size, k_tile)
                load_columns(k, first_key + begin, n, head * size, size, kt_tile)
                load_columns(v, first_key + begin, n, head * size, size, vt_tile)
                for r in range(m):
                    for j in range(n):
                        weights[r, j] = zero
                        slopes[r, j] = zero
                add_product(q_tile, kt_tile, weights, m, size, n)
                add_product(do_tile, vt_tile, slopes, m, size, n)
                for r in range(m):
                    seen = max(min(n, visible[first + r // group] - begin), 0)
                    log_total, dot = normaliser[first + r // group, head * group + r % group], dots[r]
                    if threshold > 0:
                        place = (first + r // group) * normaliser.shape[1] + head * group + r % group
                        draw_mask(mask, seen, begin // 4, place, words, threshold, kept)
                        for j in range(seen):
                            p = exp(weights[r, j] * scale - log_total)
                            weights[r, j] = p * mask[j]
                            slopes[r, j] = p * (slopes[r, j] * mask[j] - dot) * scale
                    else:
                        for j in range(seen):
                            p = exp(weights[r, j] * scale - log_total)
                            weights[r, j] = p
                            slopes[r, j] = p * (slopes[r, j] - dot) * scale
                    for j in range(seen, n):
                        weights[r, j] = zero
                        slopes[r, j] = zero
                add_transposed_product(weights, do_tile, dv_sum[begin : begin + n], n, m, size)
                add_transposed_product(slopes, q_tile, dk_sum[begin : begin + n], n, m, size)
                add_product(slopes, k_tile, dq_tile, m, n, size)
            for r in range(m):
                row, column = first + r // group, (head * group + r % group) * size
                for d in range(size):
                    dq[row, column + d] = dq_tile[r, d]
        for i in range(num_keys):
            for d in range(size):
                dk[first_key + i, head * size + d] = dk_sum[i, d]
                dv[first_key + i, head * size + d] = dv_sum[i, d]


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
    loop: Any = _attention_backward_tasks
    given = [_flat(array) for array in (dout, q, k, v, out)]
    dq, dk, dv = np.empty_like(given[1]), np.zeros_like(given[2]), np.zeros_like(given[3])
    arguments = (*given, normaliser, *plan.arguments(q.dtype, kv_heads), dq, dk, dv)
    over_rows(lambda a, b: loop(*arguments, a, b), (len(plan.offsets) - 1) * kv_heads, 2 * plan.work(q))
    return dq.reshape(q.shape), dk.reshape(k.shape), dv.reshape(v.shape)
