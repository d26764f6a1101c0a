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


class Kept(NamedTuple):
    """How many keys were kept, and the lowest of their scores, which a further key must exceed."""

    number: int
    least: float


class Gradients(NamedTuple):
    """The gradients of queries, keys and values, (rows, heads * D) each."""

    dq: Array
    dk: Array
    dv: Array


class Candidates(NamedTuple):
    """For each query of a panel, the keys that may be among the best so far, in the order of the sequence."""

    keys: Array  # (COLUMNS, capacity) int32
    scores: Array  # (COLUMNS, capacity)
    counts: Array  # (COLUMNS,) int64
    least: Array  # (COLUMNS,): the score that a further key must exceed


@kernel
def collect(scores: Array, tile: Tile, num_queries: int, candidates: Candidates) -> None:
    """Add the keys of a tile of scores (keys x COLUMNS queries) that exceed `least` to the candidates of each query.

    Every key is written, and the next one over it unless it counts: a branch would be mispredicted for most of them.
    A score that is NaN counts as infinite, so that it is not lost.
    """
    infinity = scores.dtype.type(np.inf)
    for r in range(num_queries):
        keys, kept, count, least = candidates.keys[r], candidates.scores[r], candidates.counts[r], candidates.least[r]
        for i in range(tile.num_keys):
            score = scores[i * COLUMNS + r]
            score = score if score <= infinity else infinity
            keys[count], kept[count] = tile.begin + i, score
            count += 1 if score > least else 0
        candidates.counts[r] = count


@kernel
def keep_best(keys: Array, scores: Array, count: int, most: int, spare: int) -> Kept:
    """Keep the `most` highest of the first `count` scores, and up to `spare` more, and their keys, in their order.

    Of equal scores the earlier ones are kept. The bound is found by halving: with a few keys to spare, that takes a few
    rounds, each of which counts the scores above it in vector registers.
    """
    half, low = scores.dtype.type(0.5), scores.dtype.type(np.inf)
    high = -low
    for i in range(count):
        low, high = min(low, scores[i]), max(high, scores[i])
    high = min(high, scores.dtype.type(np.finfo(scores.dtype).max))
    while True:  # at least `most` scores are `low` or more
        middle = low * half + high * half
        if not low < middle < high:
            break
        above = 0
        for i in range(count):
            above += 1 if scores[i] >= middle else 0
        if above < most:
            high = middle
            continue
        low = middle
        if above <= most + spare:
            break
    room, kept, least = most + spare, 0, scores.dtype.type(np.inf)  # room for scores equal to `low`
    for i in range(count):
        room -= 1 if scores[i] > low else 0
    for i in range(count):
        is_equal = scores[i] == low
        if kept < most + spare and (scores[i] > low or (is_equal and room > 0)):
            keys[kept], scores[kept] = keys[i], scores[i]
            kept, least = kept + 1, min(least, scores[i])
        room -= 1 if is_equal else 0
    return Kept(kept, least)


@kernel
def choose_keys(candidates: Candidates, panel: QueryPanel, heads: HeadGroup, first_key: int, chosen: Chosen) -> None:
    """Write the best candidates of each query of a panel; `first_key` is the row of the first key of the sequence."""
    most, query = chosen.keys.shape[1] // chosen.counts.shape[1], first_query(panel, heads)
    for r in range(panel.num_rows):
        keys, scores, count = candidates.keys[r], candidates.scores[r], candidates.counts[r]
        if count > most:
            count = keep_best(keys, scores, count, most, 0).number
        for c in range(count):
            chosen.keys[query.position, query.head * most + c] = first_key + keys[c]
            chosen.scores[query.position, query.head * most + c] = scores[c]
        chosen.counts[query.position, query.head] = count
        query = next_query(query, heads)


@kernel
def _choose_tasks(inputs: Inputs, chosen: Chosen, start: int, stop: int) -> None:
    """Choose the keys of all queries of tasks start to stop."""
    q, k, _, _, _, limits, kv_heads, _, _, arithmetic = inputs
    flat_k, width, size = k.reshape(-1), k.shape[1], k.shape[1] // kv_heads
    most, kind = chosen.keys.shape[1] // chosen.counts.shape[1], q.dtype
    capacity = 2 * most + KEYS + 1
    keys, kept = np.empty((COLUMNS, capacity), np.int32), np.empty((COLUMNS, capacity), kind)
    counts, least = np.empty(COLUMNS, np.int64), np.empty(COLUMNS, kind)
    candidates = Candidates(keys, kept, counts, least)
    seen = Seen(np.empty(COLUMNS, np.int32), np.empty(COLUMNS, np.int32))
    queries, q_right = np.empty(COLUMNS * size, kind), memory_for(arithmetic.packed, COLUMNS, size)
    scores, packing = np.empty(KEYS * COLUMNS, kind), pack_scratch(q.reshape(-1))
    lines = Matrix(queries, 0, size, False, COLUMNS, size)
    configure_tiles(TILE_CONFIGURATION)
    for number in range(start, stop):
        heads, first, num_rows, first_key, num_keys = task_of(inputs, number)
        if num_rows == 0:  # of a text in a cache that gets no token in this pass
            continue
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
            counts[:] = 0
            least[:] = -np.inf
            for begin in range(seen.first[0] // KEYS * KEYS, seen.visible[COLUMNS - 1], KEYS):
                tile = Tile(begin, round_up(min(KEYS, seen.visible[COLUMNS - 1] - begin), ROWS))
                k_tile = LeftFactor(k_left, begin // KEYS * k_size, tile.num_keys, size)
                panel_product(k_tile, q_right, size, scores, 0, False)
                hide_keys(scores, tile, seen, -np.inf)
                collect(scores, tile, panel.num_rows, candidates)
                for r in range(panel.num_rows):
                    if counts[r] > 2 * most:
                        best = keep_best(keys[r], kept[r], counts[r], most, most // 2)
                        counts[r], least[r] = best.number, best.least
            choose_keys(candidates, panel, heads, first_key, chosen)
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
