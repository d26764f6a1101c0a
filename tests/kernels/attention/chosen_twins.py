"""Twins of attention to the keys with the highest scores: the choice, the sums over the chosen keys, the gradients."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.attention.chosen import Chosen, Gradients
from minigrad.kernels.attention.plan import HeadGroup, Inputs
from minigrad.kernels.attention.queries import QueryPanel
from minigrad.kernels.attention.tiles import COLUMNS, Tile
from tests.kernels.attention.tile_twins import query_panels, rows_of
from tests.kernels.attention.twins import arguments, each_head, scores_of_head
from tests.kernels.twin import Arguments, Array, Twin, numbers, span, untouched

MOST = st.sampled_from([1, 2, 3, 7])


def _add(heap: list[tuple[float, int]], most: int, score: float, key: int) -> None:
    """Add to a heap of (score, -key): of equal scores, the later key is the smaller element."""
    if len(heap) < most:
        heapq.heappush(heap, (score, -key))
    elif (score, -key) > heap[0]:
        heapq.heapreplace(heap, (score, -key))


def _write(heap: list[tuple[float, int]], scores: Array, keys: Array) -> None:
    for place, (score, key) in enumerate(heap):
        scores[place], keys[place] = score, -key


@st.composite
def _push_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    most, before = draw(MOST), draw(st.integers(0, 12))
    drawn = np.round(numbers(draw, dtype, before + 1))  # a few equal ones
    scores, keys, heap = np.zeros(most, dtype), np.zeros(most, np.int32), list[tuple[float, int]]()
    for key, score in enumerate(drawn[:-1]):
        _add(heap, most, score, key)
    _write(heap, scores, keys)
    return [scores, keys, len(heap), dtype(max(drawn[-1], heap[0][0] + 1)) if heap else drawn[-1], before]


def _push(scores: Array, keys: Array, count: int, score: float, key: int) -> int:
    heap = [(scores[i], -keys[i]) for i in range(count)]
    _add(heap, len(scores), score, key)
    _write(heap, scores, keys)
    return len(heap)


@st.composite
def _sort_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    size = draw(st.integers(0, 9))
    keys = np.random.default_rng(draw(st.integers(0, 99))).permutation(20)[:size].astype(np.int32)
    return [numbers(draw, dtype, size), keys, draw(st.integers(0, size))]


def _sort_by_key(scores: Array, keys: Array, count: int) -> None:
    order = np.argsort(keys[:count])
    scores[:count], keys[:count] = scores[:count][order], keys[:count][order]


def _none_chosen(rows: int, num_heads: int, most: int, dtype: Any) -> Chosen:
    shape = (rows, num_heads * most)
    return Chosen(np.zeros(shape, np.int32), np.zeros(shape, dtype), np.zeros((rows, num_heads), np.int64))


@st.composite
def _choose_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, panel, heads = draw(query_panels(dtype))
    tile, most = Tile(draw(st.integers(0, 3)), 4 * draw(st.integers(0, 3))), draw(MOST)
    scores = np.round(numbers(draw, dtype, tile.num_keys * COLUMNS + 1, scale=2), 1)
    scores[:: draw(st.integers(2, 9))] = -np.inf  # of keys that are not seen
    scores[1 :: draw(st.integers(2, 40))] = draw(st.sampled_from([0.0, np.nan]))
    chosen = _none_chosen(len(x), heads.kv_heads * heads.group, most, dtype)
    return [scores, tile, panel, heads, np.full(COLUMNS, -np.inf, dtype), draw(st.integers(0, 5)), chosen]


def _choose_keys(
    scores: Array, tile: Tile, panel: QueryPanel, heads: HeadGroup, least: Array, first_key: int, chosen: Chosen
) -> None:
    most = chosen.keys.shape[1] // chosen.counts.shape[1]
    positions, columns = (index[:, 0] for index in rows_of(chosen.counts, panel, heads, 1))
    for r, (position, head) in enumerate(zip(positions, columns, strict=True)):
        heap, part = list[tuple[float, int]](), slice(head * most, (head + 1) * most)
        for i in range(tile.num_keys):
            score = scores[i * COLUMNS + r]
            score = np.inf if np.isnan(score) else score
            if score > -np.inf:
                _add(heap, most, score, first_key + tile.begin + i)
        _write(heap, chosen.scores[position, part], chosen.keys[position, part])
        chosen.counts[position, head] = len(heap)
        if len(heap) == most:
            least[r] = heap[0][0]


@st.composite
def _task_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, out, logsumexp, *part = draw(arguments(dtype))
    return [inputs, _none_chosen(len(out), logsumexp.shape[1], draw(MOST), dtype), *part]


def _choose_tasks(inputs: Inputs, chosen: Chosen, start: int, stop: int) -> None:
    most = chosen.keys.shape[1] // chosen.counts.shape[1]
    for head in each_head(inputs, start, stop):
        for row, scores in zip(range(head.rows.start, head.rows.stop), scores_of_head(inputs, head), strict=True):
            kept = np.sort(np.argsort(-scores, kind="stable")[: min(most, np.isfinite(scores).sum())])
            part = slice(head.number * most, head.number * most + len(kept))
            chosen.keys[row, part], chosen.counts[row, head.number] = head.keys.start + kept, len(kept)
            chosen.scores[row, part] = scores[kept] / inputs.scale


@st.composite
def _row_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, chosen, _, _ = draw(_task_arguments(dtype))
    _choose_tasks(inputs, chosen, 0, (len(inputs.offsets) - 1) * inputs.kv_heads)
    return [inputs, chosen, untouched(inputs.q), *span(draw, len(inputs.q))]


def _chosen_of(inputs: Inputs, chosen: Chosen, row: int, head: int) -> tuple[slice, Array, slice]:
    """Return the place of a head's chosen keys, these keys, and the columns of their key/value head."""
    num_heads, size = chosen.counts.shape[1], inputs.k.shape[1] // inputs.kv_heads
    place = head * (chosen.keys.shape[1] // num_heads)
    part, shared = slice(place, place + chosen.counts[row, head]), head // (num_heads // inputs.kv_heads) * size
    return part, chosen.keys[row, part], slice(shared, shared + size)


def _attend_rows(inputs: Inputs, chosen: Chosen, out: Array, start: int, stop: int) -> None:
    size = inputs.k.shape[1] // inputs.kv_heads
    for row in range(start, stop):
        for head in range(chosen.counts.shape[1]):
            part, keys, shared = _chosen_of(inputs, chosen, row, head)
            e = np.exp(chosen.scores[row, part] * inputs.scale)
            chosen.scores[row, part] = e / e.sum()
            out[row, head * size : (head + 1) * size] = chosen.scores[row, part] @ inputs.v[keys, shared]


@st.composite
def _backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, chosen, out, _, _ = draw(_row_arguments(dtype))
    _attend_rows(inputs, chosen, out, 0, len(out))
    gradients = Gradients(*(numbers(draw, dtype, *x.shape) for x in (inputs.q, inputs.k, inputs.v)))
    tasks = (len(inputs.offsets) - 1) * inputs.kv_heads
    return [inputs, numbers(draw, dtype, *out.shape), chosen, gradients, *span(draw, tasks)]


def _chosen_backward_tasks(
    inputs: Inputs, dout: Array, chosen: Chosen, gradients: Gradients, start: int, stop: int
) -> None:
    for head in each_head(inputs, start, stop):
        for row in range(head.rows.start, head.rows.stop):
            part, keys, shared = _chosen_of(inputs, chosen, row, head.number)
            p, dy, q = chosen.scores[row, part], dout[row, head.columns], inputs.q[row, head.columns]
            dp = inputs.v[keys, shared] @ dy
            ds = p * (dp - p @ dp) * inputs.scale
            gradients.dq[row, head.columns] += ds @ inputs.k[keys, shared]
            gradients.dk[keys, shared] += np.outer(ds, q)
            gradients.dv[keys, shared] += np.outer(p, dy)


TWINS: dict[str, Twin] = {
    "attention.chosen.push": Twin(_push_arguments, _push),
    "attention.chosen.sort_by_key": Twin(_sort_arguments, _sort_by_key),
    "attention.chosen.choose_keys": Twin(_choose_arguments, _choose_keys),
    "attention.chosen._choose_tasks": Twin(_task_arguments, _choose_tasks),
    "attention.chosen._attend_rows": Twin(_row_arguments, _attend_rows),
    "attention.chosen._chosen_backward_tasks": Twin(_backward_arguments, _chosen_backward_tasks),
}
