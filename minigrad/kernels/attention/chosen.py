"""Attention to the keys with the highest scores only: a fixed number of them for each query and head.

To know which scores are the highest, all of them are computed: the selection costs half the products of the forward
pass of full attention. It goes panel by panel and tile by tile, so that no more than the chosen keys and their scores
are stored. Everything after it, the softmax, the sum of the values and the whole backward pass, costs only as much as
the chosen keys do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.attention.factors import memory_for, pack_left, pack_right
from minigrad.kernels.attention.plan import HeadGroup, Inputs, Plan, Seen, flat, task_of
from minigrad.kernels.attention.queries import (
    QueryPanel,
    first_query,
    hide_keys,
    load_queries,
    load_seen,
    next_query,
)
from minigrad.kernels.attention.tiles import COLUMNS, KEYS, ROWS, LeftFactor, Tile, lane_size, panel_product, round_up
from minigrad.kernels.codegen.amx import TILE_CONFIGURATION, configure_tiles, release_tiles
from minigrad.kernels.gemm.packing import Matrix, pack_scratch
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


class Chosen(NamedTuple):
    """The chosen keys of each query and head, in the order in which they lie in memory."""

    keys: Array  # (rows, heads * most) int32: rows of the keys
    scores: Array  # (rows, heads * most): the unscaled scores; after `attend_to_chosen`, the probabilities
    counts: Array  # (rows, heads) int64: how many keys were chosen, at most `most`


class Gradients(NamedTuple):
    """The gradients of queries, keys and values, (rows, heads * D) each."""

    dq: Array
    dk: Array
    dv: Array


@kernel
def push(scores: Array, keys: Array, count: int, score: float, key: int) -> int:
    """Add a key to a full or growing heap of the best ones, and return their number; a full heap loses its worst.

    The heap holds `count` keys, the worst one first; of equal scores, that of the later key is the worse. `key` comes
    after all keys in the heap and, if the heap is full, has a higher score than its worst one.
    """
    i = count
    if count < scores.size:
        while i > 0 and scores[(i - 1) // 2] >= score:
            above = (i - 1) // 2
            scores[i], keys[i], i = scores[above], keys[above], above
        scores[i], keys[i] = score, key
        return count + 1
    i, below = 0, 1
    while below < count:
        other = below + 1
        if other < count and (
            scores[other] < scores[below] or (scores[other] == scores[below] and keys[other] > keys[below])
        ):
            below = other
        if scores[below] >= score:
            break
        scores[i], keys[i], i = scores[below], keys[below], below
        below = 2 * i + 1
    scores[i], keys[i] = score, key
    return count


@kernel
def sort_by_key(scores: Array, keys: Array, count: int) -> None:
    """Sort the first `count` keys, and their scores with them."""
    for i in range(1, count):
        score, key, j = scores[i], keys[i], i
        while j > 0 and keys[j - 1] > key:
            scores[j], keys[j], j = scores[j - 1], keys[j - 1], j - 1
        scores[j], keys[j] = score, key


@kernel
def choose_keys(
    scores: Array, tile: Tile, panel: QueryPanel, heads: HeadGroup, least: Array, first_key: int, chosen: Chosen
) -> None:
    """Let the queries of a panel choose among the keys of a tile of scores (keys x COLUMNS queries).

    `least` (COLUMNS,) is the score that a key must exceed: -inf while fewer keys than `most` are chosen. A score that
    is NaN counts as the highest, so that it is not lost. `first_key` is the row of the first key of the sequence.
    """
    most, infinity = chosen.keys.shape[1] // chosen.counts.shape[1], scores.dtype.type(np.inf)
    for i in range(tile.num_keys):
        row, above = scores[i * COLUMNS : (i + 1) * COLUMNS], 0
        for j in range(row.size):
            above += 0 if row[j] <= least[j] else 1
        if above == 0:  # as for most keys of a long sequence
            continue
        query = first_query(panel, heads)
        for r in range(panel.num_rows):
            score = row[r] if row[r] <= infinity else infinity
            if score > least[r]:
                place = query.head * most
                kept = chosen.scores[query.position, place : place + most]
                keys, count = (
                    chosen.keys[query.position, place : place + most],
                    chosen.counts[query.position, query.head],
                )
                count = push(kept, keys, count, score, first_key + tile.begin + i)
                chosen.counts[query.position, query.head] = count
                if count == most:
                    least[r] = kept[0]
            query = next_query(query, heads)


@kernel
def _choose_tasks(inputs: Inputs, chosen: Chosen, start: int, stop: int) -> None:
    """Choose the keys of all queries of tasks start to stop."""
    q, k, _, _, _, limits, kv_heads, _, _, arithmetic = inputs
    flat_k, width, size = k.reshape(-1), k.shape[1], k.shape[1] // kv_heads
    most, kind = chosen.keys.shape[1] // chosen.counts.shape[1], q.dtype
    queries, q_right = np.empty(COLUMNS * size, kind), memory_for(arithmetic.packed, COLUMNS, size)
    scores, least, packing = np.empty(KEYS * COLUMNS, kind), np.empty(COLUMNS, kind), pack_scratch(q.reshape(-1))
    seen = Seen(np.empty(COLUMNS, np.int32), np.empty(COLUMNS, np.int32))
    lines = Matrix(queries, 0, size, False, COLUMNS, size)
    configure_tiles(TILE_CONFIGURATION)
    for number in range(start, stop):
        heads, first, num_rows, first_key, num_keys = task_of(inputs, number)
        k_left = memory_for(arithmetic.packed, round_up(num_keys, KEYS), size)
        k_size = KEYS * lane_size(k_left, size)
        for begin in range(0, num_keys, KEYS):
            n, place = min(KEYS, num_keys - begin), (first_key + begin) * width + heads.head * size
            k_tile = LeftFactor(k_left, begin // KEYS * k_size, round_up(n, COLUMNS), size)
            pack_left(Matrix(flat_k, place, width, False, n, size), k_tile, packing)
        for row in range(0, num_rows, COLUMNS):
            panel = QueryPanel(first, row, min(COLUMNS, num_rows - row))
            load_queries(q, panel, heads, queries)
            pack_right(lines, q_right, packing)
            load_seen(limits, panel, heads, seen)
            least[:] = -np.inf
            for begin in range(seen.first[0] // KEYS * KEYS, seen.visible[COLUMNS - 1], KEYS):
                tile = Tile(begin, round_up(min(KEYS, seen.visible[COLUMNS - 1] - begin), ROWS))
                k_tile = LeftFactor(k_left, begin // KEYS * k_size, tile.num_keys, size)
                panel_product(k_tile, q_right, size, scores, 0, False)
                hide_keys(scores, tile, seen, -np.inf)
                choose_keys(scores, tile, panel, heads, least, first_key, chosen)
            query = first_query(panel, heads)
            for _ in range(panel.num_rows):
                part = slice(query.head * most, query.head * most + most)
                count = chosen.counts[query.position, query.head]
                sort_by_key(chosen.scores[query.position, part], chosen.keys[query.position, part], count)
                query = next_query(query, heads)
    release_tiles(TILE_CONFIGURATION)


@kernel
def _attend_rows(inputs: Inputs, chosen: Chosen, out: Array, start: int, stop: int) -> None:
    """Compute rows start to stop of the output, and replace their scores by probabilities."""
    v, num_heads = inputs.v, chosen.counts.shape[1]
    size, most, zero = inputs.k.shape[1] // inputs.kv_heads, chosen.keys.shape[1] // num_heads, out.dtype.type(0)
    for row in range(start, stop):
        for head in range(num_heads):
            count, column = chosen.counts[row, head], head // (num_heads // inputs.kv_heads) * size
            p = chosen.scores[row, head * most : head * most + count]
            keys, line = chosen.keys[row, head * most : head * most + count], out[row, head * size : (head + 1) * size]
            top, total = out.dtype.type(-np.inf), zero
            for c in range(count):
                top = max(top, p[c] * inputs.scale)
            for c in range(count):
                p[c] = exp(p[c] * inputs.scale - top)
                total += p[c]
            line[:] = zero
            for c in range(count):
                p[c] /= total
                value = v[keys[c], column : column + size]
                for d in range(size):
                    line[d] += p[c] * value[d]


@kernel
def _chosen_backward_tasks(
    inputs: Inputs, dout: Array, chosen: Chosen, gradients: Gradients, start: int, stop: int
) -> None:
    """Write the gradients of the queries of tasks start to stop, and add to those of their keys and values."""
    q, k, v, (dq, dk, dv) = inputs.q, inputs.k, inputs.v, gradients
    num_heads, zero = chosen.counts.shape[1], q.dtype.type(0)
    most = chosen.keys.shape[1] // num_heads
    slopes = np.empty(most, q.dtype)
    for number in range(start, stop):
        heads, first, num_rows, _, _ = task_of(inputs, number)
        size, column = heads.size, heads.head * heads.size
        query = first_query(QueryPanel(first, 0, num_rows), heads)
        for _ in range(num_rows):
            row, count, place = query.position, chosen.counts[query.position, query.head], query.head * most
            p, keys = chosen.scores[row, place : place + count], chosen.keys[row, place : place + count]
            part = slice(query.head * size, (query.head + 1) * size)
            dy, x, dx, mean = dout[row, part], q[row, part], dq[row, part], zero
            for c in range(count):
                value, dvalue, dot = v[keys[c], column : column + size], dv[keys[c], column : column + size], zero
                for d in range(size):
                    dot += dy[d] * value[d]
                    dvalue[d] += p[c] * dy[d]
                slopes[c] = dot
                mean += p[c] * dot
            for c in range(count):
                key, dkey = k[keys[c], column : column + size], dk[keys[c], column : column + size]
                slope = p[c] * (slopes[c] - mean) * inputs.scale
                for d in range(size):
                    dx[d] += slope * key[d]
                    dkey[d] += slope * x[d]
            query = next_query(query, heads)


def choose(q: Array, k: Array, v: Array, plan: Plan, most: int) -> tuple[Inputs, Chosen]:
    """Return what the loops read, and the `most` keys of the highest scores for each query and head."""
    inputs, num_heads = plan.inputs(q, k, v), q.shape[1]
    shape = (len(q), num_heads * most)
    chosen = Chosen(np.zeros(shape, np.int32), np.zeros(shape, q.dtype), np.zeros((len(q), num_heads), np.int64))
    over_rows(lambda start, stop: _choose_tasks(inputs, chosen, start, stop), plan.num_tasks(k), plan.work(q, k))
    return inputs, chosen


def attend_to_chosen(inputs: Inputs, chosen: Chosen) -> Array:
    """Return the attended values (rows, heads * D); the scores of the chosen keys become probabilities."""
    out = np.empty_like(inputs.q)
    over_rows(
        lambda start, stop: _attend_rows(inputs, chosen, out, start, stop), len(out), 2 * chosen.keys.shape[1] * 32
    )
    return out


def chosen_backward(dout: Array, inputs: Inputs, chosen: Chosen, plan: Plan) -> Gradients:
    """Return the gradients of queries, keys and values, as rows, from the probabilities of the chosen keys."""
    gradients, slopes = Gradients(*(np.zeros_like(x) for x in (inputs.q, inputs.k, inputs.v))), flat(dout)
    tasks = (len(plan.offsets) - 1) * inputs.kv_heads
    over_rows(
        lambda start, stop: _chosen_backward_tasks(inputs, slopes, chosen, gradients, start, stop),
        tasks,
        4 * inputs.q.size * (chosen.keys.shape[1] // chosen.counts.shape[1]) // max(tasks, 1),
    )
    return gradients
