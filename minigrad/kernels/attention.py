"""Causal grouped-query attention, tile by tile, with the online softmax.

The scores of a whole sequence, T x T numbers, are never stored. A tile of queries meets the keys tile by tile; a
running maximum and a running sum per query make the softmax exact all the same (Milakov and Gimelshein 2018, arXiv
1805.02867; Dao et al. 2022, "FlashAttention", arXiv 2205.14135). The backward pass computes each tile of
probabilities again from the scores and the saved logarithm of the sum.

All query heads of a group share their keys and values, so they sit in one tile: row r of a tile is query
position r // group, head r % group. One task is one sequence and one key/value head; tasks share nothing they write.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.kernels import kernel, rows_of
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
    lanes = np.empty(LANES, q.dtype)
    for task in range(start, stop):
        sequence, head = task // kv_heads, task % kv_heads
        first_key, num_keys = keys[sequence, 0], keys[sequence, 1] - keys[sequence, 0]
        past = num_keys - (queries[sequence + 1] - queries[sequence])  # keys that stand before the first query
        for first in range(queries[sequence], queries[sequence + 1], positions):
            count = min(positions, queries[sequence + 1] - first)
            m = count * group
            offset = past + first - queries[sequence]  # position of the tile's first query among the keys
            load_rows(q, first, count, group, head * group * size, size, q_tile)
            for r in range(m):
                largest[r], total[r] = lowest, zero
                for d in range(size):
                    o_tile[r, d] = zero
            for begin in range(0, offset + count, _KEYS):
                n = min(_KEYS, offset + count - begin)  # up to the last key that any query of the tile may see
                load_columns(k, first_key + begin, n, head * size, size, k_tile)
                load_rows(v, first_key + begin, n, 1, head * size, size, v_tile)
                for r in range(m):
                    for j in range(n):
                        scores[r, j] = zero
                add_product(q_tile, k_tile, scores, m, size, n)
                for r in range(m):
                    visible = min(n, offset + r // group + 1 - begin)
                    if visible > 0:
                        top = max(largest[r], row_maximum(scores, r, visible, lanes) * scale)
                        # The maximum may have grown: bring what was added so far onto the new scale.
                        shrink = exp(largest[r] - top)
                        added = zero
                        for j in range(visible):
                            e = exp(scores[r, j] * scale - top)
                            scores[r, j] = e
                            added += e
                        total[r] = total[r] * shrink + added
                        largest[r] = top
                        for d in range(size):
                            o_tile[r, d] *= shrink
                    for j in range(max(visible, 0), n):
                        scores[r, j] = zero
                add_product(scores, v_tile, o_tile, m, n, size)
            for r in range(m):
                row, query_head = first + r // group, head * group + r % group
                normaliser[row, query_head] = largest[r] + np.log(total[r])
                inverse = q.dtype.type(1) / total[r]
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
    dots = np.empty(rows, q.dtype)
    for task in range(start, stop):
        sequence, head = task // kv_heads, task % kv_heads
        first_key, num_keys = keys[sequence, 0], keys[sequence, 1] - keys[sequence, 0]
        past = num_keys - (queries[sequence + 1] - queries[sequence])
        dk_sum, dv_sum = np.zeros((num_keys, size), q.dtype), np.zeros((num_keys, size), q.dtype)
        for first in range(queries[sequence], queries[sequence + 1], positions):
            count = min(positions, queries[sequence + 1] - first)
            m = count * group
            offset = past + first - queries[sequence]
            load_rows(q, first, count, group, head * group * size, size, q_tile)
            load_rows(dout, first, count, group, head * group * size, size, do_tile)
            for r in range(m):
                row, column = first + r // group, (head * group + r % group) * size
                dot = zero
                for d in range(size):
                    dot += do_tile[r, d] * out[row, column + d]
                    dq_tile[r, d] = zero
                dots[r] = dot
            for begin in range(0, offset + count, _KEYS):
                n = min(_KEYS, offset + count - begin)  # up to the last key that any query of the tile may see
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
                    visible = max(min(n, offset + r // group + 1 - begin), 0)
                    log_total, dot = normaliser[first + r // group, head * group + r % group], dots[r]
                    for j in range(visible):
                        p = exp(weights[r, j] * scale - log_total)
                        weights[r, j] = p
                        slopes[r, j] = p * (slopes[r, j] - dot) * scale
                    for j in range(visible, n):
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


def attention_forward(
    q: Array, k: Array, v: Array, offsets: Array, key_ranges: Array, scale: float
) -> tuple[Array, Array]:
    """Return the attended values (rows, H, D) and each query head's log of the sum of exponentials (rows, H)."""
    queries, kv_heads = _flat(q), k.shape[1]
    keys, values, factor = _flat(k), _flat(v), q.dtype.type(scale)
    out, normaliser = np.empty_like(queries), np.empty(q.shape[:2], q.dtype)
    tasks = (len(offsets) - 1) * kv_heads
    over_rows(
        lambda start, stop: _attention_tasks(
            queries, keys, values, out, normaliser, offsets, key_ranges, kv_heads, factor, start, stop
        ),
        tasks,
        _work(q, offsets, key_ranges),
    )
    return out.reshape(q.shape), normaliser


def attention_backward(
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    normaliser: Array,
    offsets: Array,
    key_ranges: Array,
    scale: float,
) -> tuple[Array, Array, Array]:
    """Return the gradients by q, k and v; keys that belong to no sequence get zero."""
    douts, queries, keys, values, outs = (_flat(array) for array in (dout, q, k, v, out))
    kv_heads, factor = k.shape[1], q.dtype.type(scale)
    dq, dk, dv = np.empty_like(queries), np.zeros_like(keys), np.zeros_like(values)
    tasks = (len(offsets) - 1) * kv_heads
    over_rows(
        lambda start, stop: _attention_backward_tasks(
            douts,
            queries,
            keys,
            values,
            outs,
            normaliser,
            offsets,
            key_ranges,
            kv_heads,
            factor,
            dq,
            dk,
            dv,
            start,
            stop,
        ),
        tasks,
        2 * _work(q, offsets, key_ranges),
    )
    return dq.reshape(q.shape), dk.reshape(k.shape), dv.reshape(v.shape)


def _work(q: Array, offsets: Array, key_ranges: Array) -> int:
    """Estimate the element operations of one task, to decide whether threads pay."""
    sequences = max(len(offsets) - 1, 1)
    longest = int((key_ranges[:, 1] - key_ranges[:, 0]).max(initial=0))
    return (q.size // sequences) * longest // 8
