"""Causal grouped-query attention, tile by tile, with the online softmax.

The scores of a whole sequence, T x T elements, are never stored. A panel of queries is multiplied with the keys tile by
tile; a running maximum and a running sum per query make the softmax exact all the same (Milakov and Gimelshein 2018,
arXiv 1805.02867; Dao et al. 2022, "FlashAttention", arXiv 2205.14135). The backward pass computes each tile of
probabilities again from the scores and the saved denominators.

Scores are keys x queries: each step of the softmax then applies to all queries of a panel at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.attention.factors import memory_for, pack_left, pack_right, product_with_panel, transpose
from minigrad.kernels.attention.plan import Denominators, HeadGroup, Inputs, Plan, Seen, task_of
from minigrad.kernels.attention.queries import (
    QueryPanel,
    apply_mask,
    draw_panel,
    first_query,
    hide_keys,
    load_queries,
    load_seen,
    next_query,
    round_panel,
)
from minigrad.kernels.attention.tiles import COLUMNS, KEYS, ROWS, LeftFactor, Tile, lane_size, panel_product, round_up
from minigrad.kernels.attention.visible import add_keys, packs_finite
from minigrad.kernels.codegen.amx import TILE_CONFIGURATION, configure_tiles, release_tiles
from minigrad.kernels.gemm.packing import Matrix, PackScratch, pack_scratch
from minigrad.kernels.jit import allocating, kernel, pasted
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


class RunningSoftmax(NamedTuple):
    """The softmax of a panel over the tiles so far, one element per query."""

    largest: Array  # the maximum of the scores, before the scale
    total: Array  # the sum of exponentials, relative to the maximum
    rescale: Array  # exp(scale * (old maximum - new maximum)) at the newest tile
    top: Array  # scratch memory


class ForwardWorkspace(NamedTuple):
    """Memory for the keys of a sequence, tile by tile, and for a panel of queries."""

    k_left: Array  # the keys as left factors
    v_left: Array  # the values, transposed
    finite: Array  # (tiles,): whether the values of a tile are finite
    queries: Array  # the rows of a panel, unpacked
    q_right: Array  # the same as a right factor
    p_right: Array  # a tile of probabilities as a right factor
    scores: Array  # (keys of a tile, COLUMNS)
    attended: Array  # (D rounded up, COLUMNS): the sums of values
    seen: Seen  # (COLUMNS,) int32 each: which keys a query sees
    softmax: RunningSoftmax
    mask: Array  # (keys of a tile, COLUMNS)
    drawn: Array  # (keys of a tile,)
    packing: PackScratch


@pasted
def forward_workspace(q: Array, packed: Array, size: int, num_keys: int) -> ForwardWorkspace:
    """Return uninitialised memory for heads of `size` elements, of the types of `q` and, packed, of `packed`."""
    kind, width, height, covered = q.dtype, KEYS * COLUMNS, round_up(size, ROWS), round_up(num_keys, KEYS)
    k_left, v_left = memory_for(packed, covered, size), memory_for(packed, height, covered)
    q_right, p_right = memory_for(packed, COLUMNS, size), memory_for(packed, COLUMNS, KEYS)
    queries, scores, attended = np.empty(COLUMNS * size, kind), np.empty(width, kind), np.empty(height * COLUMNS, kind)
    seen = Seen(np.empty(COLUMNS, np.int32), np.empty(COLUMNS, np.int32))
    largest, total = np.empty(COLUMNS, kind), np.empty(COLUMNS, kind)
    softmax = RunningSoftmax(largest, total, np.empty(COLUMNS, kind), np.empty(COLUMNS, kind))
    mask, drawn, packing = np.empty(width, kind), np.empty(KEYS, kind), pack_scratch(q.reshape(-1))
    keys, panel = (k_left, v_left, np.empty(covered // KEYS, np.bool_)), (queries, q_right, p_right)
    return ForwardWorkspace(*(keys + panel + (scores, attended, seen, softmax, mask, drawn, packing)))


@kernel
def softmax_step(scores: Array, tile: Tile, seen: Seen, scale: float, running: RunningSoftmax) -> None:
    """Replace a tile of scores (keys x COLUMNS queries) by exponentials, and update the running softmax.

    Query j sees the keys from seen.first[j] to seen.visible[j]; the number of keys is a multiple of 4. The maximum may
    have grown: the caller multiplies its sums by `rescale`.
    """
    largest, total, rescale, top = running
    hide_keys(scores, tile, seen, -np.inf)
    for j in range(COLUMNS):
        top[j] = -np.inf
    for i in range(tile.num_keys // 4):  # four keys at a time: each maximum, and each sum, depends on the one before it
        place = i * 4 * COLUMNS
        for j in range(COLUMNS):
            a, b = scores[place + j], scores[place + COLUMNS + j]
            c, d = scores[place + 2 * COLUMNS + j], scores[place + 3 * COLUMNS + j]
            top[j] = max(top[j], max(max(a, b), max(c, d)))
    for j in range(COLUMNS):
        before = largest[j]
        largest[j] = max(before, top[j])
        # A query that has seen no key has no maximum; any finite number will do, because its exponentials are all zero.
        top[j] = largest[j] if largest[j] > -np.inf else scores.dtype.type(0)
        rescale[j] = exp((before - top[j]) * scale)
        total[j] *= rescale[j]
    for i in range(tile.num_keys // 4):
        place = i * 4 * COLUMNS
        for j in range(COLUMNS):
            a = exp((scores[place + j] - top[j]) * scale)
            b = exp((scores[place + COLUMNS + j] - top[j]) * scale)
            c = exp((scores[place + 2 * COLUMNS + j] - top[j]) * scale)
            d = exp((scores[place + 3 * COLUMNS + j] - top[j]) * scale)
            scores[place + j], scores[place + COLUMNS + j] = a, b
            scores[place + 2 * COLUMNS + j], scores[place + 3 * COLUMNS + j] = c, d
            total[j] += (a + b) + (c + d)


@kernel
def write_attended(
    rows: Array, panel: QueryPanel, heads: HeadGroup, softmax: RunningSoftmax, out: Array, denominators: Denominators
) -> None:
    """Divide the rows of a panel by their sums of exponentials; write them to `out`, and the denominators."""
    size, zero, query = heads.size, rows.dtype.type(0), first_query(panel, heads)
    for r in range(panel.num_rows):
        total = softmax.total[r]
        inverse = rows.dtype.type(1) / total if total != zero else zero  # 0 of a query that sees no key
        denominators.largest[query.position, query.head] = softmax.largest[r]
        denominators.total[query.position, query.head] = total
        row, line = rows[r * size : (r + 1) * size], out[query.position, query.head * size : (query.head + 1) * size]
        for d in range(size):
            line[d] = row[d] * inverse
        query = next_query(query, heads)


@kernel
def _attend_in(
    inputs: Inputs, out: Array, denominators: Denominators, start: int, stop: int, memory: ForwardWorkspace
) -> None:
    """Compute tasks start to stop, in memory for at least as many keys as each of them has."""
    q, k, v, _, _, limits, kv_heads, scale, draws, arithmetic = inputs
    flat_k, flat_v, width, size = k.reshape(-1), v.reshape(-1), k.shape[1], k.shape[1] // kv_heads
    height, zero = round_up(size, ROWS), q.dtype.type(0)
    k_left, v_left, finite, queries, q_right, p_right, scores, attended, seen, softmax, mask, drawn, packing = memory
    largest, total, rescale, _ = softmax
    k_size, v_size = KEYS * lane_size(k_left, size), height * lane_size(v_left, KEYS)
    lines = Matrix(queries, 0, size, False, COLUMNS, size)
    configure_tiles(TILE_CONFIGURATION)
    for number in range(start, stop):
        heads, first, num_rows, first_key, num_keys = task_of(inputs, number)
        if num_rows == 0:  # of a text in a cache that gets no token in this pass
            continue
        # Tile by tile, the keys are left factors of the scores, and the transposed values those of the result.
        for tile in range(round_up(num_keys, KEYS) // KEYS):
            n, place = min(KEYS, num_keys - tile * KEYS), (first_key + tile * KEYS) * width + heads.head * size
            m = round_up(n, COLUMNS)
            pack_left(Matrix(flat_k, place, width, False, n, size), LeftFactor(k_left, tile * k_size, m, size), packing)
            v_columns = LeftFactor(v_left, tile * v_size, height, m)
            pack_left(Matrix(flat_v, place, width, True, size, n), v_columns, packing)
            finite[tile] = packs_finite(v_left, Matrix(flat_v, place, width, False, n, size))
        for row in range(0, num_rows, COLUMNS):
            panel = QueryPanel(first, row, min(COLUMNS, num_rows - row))
            load_queries(q, panel, heads, queries)
            pack_right(lines, q_right, packing)
            load_seen(limits, panel, heads, seen)
            # Keys before the first one that the first query sees are left out, in whole blocks of the packed factors.
            least, most = seen.first[0] // COLUMNS * COLUMNS, seen.visible[COLUMNS - 1]
            largest[:], total[:], attended[:] = -np.inf, zero, zero
            for begin in range(least // KEYS * KEYS, most if most > least else 0, KEYS):  # no tile without keys
                n, tile, skipped = min(KEYS, num_keys - begin), begin // KEYS, max(least - begin, 0)
                keys = Tile(begin + skipped, round_up(min(KEYS, most - begin) - skipped, ROWS))
                place = tile * k_size + skipped * lane_size(k_left, size)
                panel_product(LeftFactor(k_left, place, keys.num_keys, size), q_right, size, scores, 0, False)
                softmax_step(scores, keys, seen, scale, softmax)
                if draws.threshold > 0:
                    draw_panel(mask, drawn, keys, panel, heads, draws)
                    apply_mask(scores, mask, keys)
                for i in range(height):
                    sums = attended[i * COLUMNS : (i + 1) * COLUMNS]
                    for j in range(sums.size):  # a loop of constant length would be unrolled into single elements
                        sums[j] *= rescale[j]
                if arithmetic.rounding:
                    round_panel(scores, keys)
                if finite[tile]:
                    place = tile * v_size + ROWS * lane_size(v_left, skipped)
                    v_tile = LeftFactor(v_left, place, height, round_up(n, COLUMNS))
                    product_with_panel(v_tile, scores, keys.num_keys, p_right, packing, attended, True)
                else:
                    place = (first_key + keys.begin) * width + heads.head * size
                    add_keys(scores, keys, seen, Matrix(flat_v, place, width, False, n - skipped, size), attended)
            transpose(Matrix(attended, 0, COLUMNS, False, size, COLUMNS), queries)
            write_attended(queries, panel, heads, softmax, out, denominators)
    release_tiles()


@allocating
def _attention_tasks(inputs: Inputs, out: Array, denominators: Denominators, start: int, stop: int) -> None:
    """Compute tasks start to stop."""
    most = 0
    for number in range(start, stop):
        most = max(most, task_of(inputs, number).num_keys)
    size = inputs.k.shape[1] // inputs.kv_heads
    memory = forward_workspace(inputs.q, inputs.arithmetic.packed, size, most)
    _attend_in(inputs, out, denominators, start, stop, memory)


def attention_forward(q: Array, k: Array, v: Array, plan: Plan) -> tuple[Array, Denominators]:
    """Return the attended values (rows, H, D) and the denominators of the softmax of each query head.

    A query that sees no key gets 0.  Shapes: q (rows, H, D), k and v (key rows, G, D), where H is a multiple of G.
    """
    out = np.empty((len(q), q.shape[1] * q.shape[2]), q.dtype)
    denominators = Denominators(np.empty(q.shape[:2], q.dtype), np.empty(q.shape[:2], q.dtype))
    for arithmetic, first, last in plan.runs(q, k, v):
        inputs, before = plan.inputs(arithmetic, q, k, v), first * k.shape[1]

        def loop(start: int, stop: int, inputs: Inputs = inputs, before: int = before) -> None:
            _attention_tasks(inputs, out, denominators, before + start, before + stop)

        over_rows(loop, (last - first) * k.shape[1], plan.work(q, k))
    return out.reshape(q.shape), denominators
