"""Twins of attention to the keys with the highest scores: the choice, the sums over the chosen keys, the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.attention.chosen import Chosen
from minigrad.kernels.attention.plan import Gradients, Inputs
from tests.kernels.attention.twins import arguments, each_head, scores_of_head
from tests.kernels.twin import Arguments, Array, Twin, numbers, span, untouched

MOST = st.sampled_from([1, 2, 3, 7])


def best_of(scores: Array, most: int) -> Array:
    """Return the places of the highest scores, in their order; of equal ones the earlier places."""
    return np.sort(np.argsort(-scores, kind="stable")[:most])


@st.composite
def _keep_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    most, more = draw(MOST), draw(st.integers(1, 30))
    scores = np.round(numbers(draw, dtype, most + more), draw(st.sampled_from([0, 9])))  # with equal ones, or without
    scores[: draw(st.integers(0, 3))] = np.inf
    scores = np.random.default_rng(draw(st.integers(0, 9))).permutation(scores)
    count = draw(st.integers(most + 1, most + more))
    return [np.arange(len(scores), dtype=np.int32) + 3, scores, count, most]


def _keep_best(keys: Array, scores: Array, count: int, most: int) -> int:
    kept = best_of(scores[:count], most)
    keys[:most], scores[:most] = keys[kept], scores[kept]
    return most


def _none_chosen(rows: int, num_heads: int, most: int, dtype: Any) -> Chosen:
    shape = (rows, num_heads * most)
    return Chosen(np.zeros(shape, np.int32), np.zeros(shape, dtype), np.zeros((rows, num_heads), np.int64))


@st.composite
def _task_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, out, denominators, *part = draw(arguments(dtype))
    return [inputs, _none_chosen(len(out), denominators.total.shape[1], draw(MOST), dtype), *part]


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
    "attention.chosen.keep_best": Twin(_keep_arguments, _keep_best),
    "attention.chosen._choose_tasks": Twin(_task_arguments, _choose_tasks),
    "attention.chosen._attend_rows": Twin(_row_arguments, _attend_rows),
    "attention.chosen._chosen_backward_tasks": Twin(_backward_arguments, _chosen_backward_tasks),
}
