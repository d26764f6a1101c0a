"""Attention with the whole T x T matrix stored: the twins of both passes, and of the op."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.attention.forward import forward_workspace
from minigrad.kernels.attention.plan import Arithmetic, Denominators, Gradients, HeadGroup, Inputs, Plan, Seen, Task
from minigrad.kernels.attention.tile_gradients import Saved, backward_workspace
from minigrad.kernels.rowwise.dropout import Draws
from tests.kernels.rowwise.draw_twins import philox, some_draws
from tests.kernels.rowwise.twins import log_sum_exp
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers, span, untouched


def scores_of(q: Array, k: Array, seen: Seen, scale: float) -> Array:
    """Return one sequence's and one head's scores (queries, keys); -inf where a query does not see a key."""
    keys, (first, visible) = np.arange(len(k)), (bound[:, None] for bound in seen)
    return np.where((first <= keys) & (keys < visible), q @ k.T * scale, -np.inf)


def probabilities(scores: Array) -> Array:
    """Return the softmax of each row (queries, keys); zeros for a query that sees nothing."""
    seen = np.isfinite(scores).any(axis=1)
    p = np.zeros_like(scores)
    if seen.any():
        p[seen] = np.exp(scores[seen] - log_sum_exp(scores[seen])[:, None])
    return p


def causal(offsets: Array, key_ranges: Array) -> Array:
    """Return how many keys each row sees if the last keys of a sequence belong to its queries."""
    counts = [
        np.arange(1, b - a + 1) + (stop - start) - (b - a)
        for a, b, (start, stop) in zip(offsets[:-1], offsets[1:], key_ranges, strict=True)
    ]
    return np.concatenate([np.zeros(0, np.int64), *counts]).astype(np.int64)


def everything(visible: Array) -> Seen:
    """Return that each query sees the first keys, as many as `visible` says."""
    return Seen(np.zeros_like(visible), visible)


def part_of(seen: Seen, rows: slice) -> Seen:
    """Return which keys the queries of these rows see."""
    return Seen(seen.first[rows], seen.visible[rows])


def mask_of(rows: slice, head: int, num_heads: int, num_keys: int, words: Array, threshold: int, kept: float) -> Array:
    """Return what each probability (queries, keys) of one sequence and head is multiplied by."""
    places = np.arange(rows.start, rows.stop) * num_heads + head
    draws = [philox_words(np.arange(-(-num_keys // 4)), place, words) for place in places]
    drawn = np.array(draws).reshape(len(places), 4 * -(-num_keys // 4))[:, :num_keys]
    return np.where(drawn >= threshold, kept, 0.0)


def philox_words(blocks: Array, place: int, words: Array) -> Array:
    """Return four draws for each counter (block, place)."""
    key, step, index = (int(words[0]), int(words[1])), int(words[2]), int(words[3])
    return philox(blocks.astype(np.uint64) | np.uint64(place) << np.uint64(32), (step, index), key)


def attention(
    q: Array, k: Array, v: Array, offsets: Array, key_ranges: Array, scale: float, seen: Seen | None = None
) -> Array:
    """Attend one sequence and one head at a time: q (rows, H, D), k and v (key rows, G, D) -> (rows, H, D)."""
    out, group = np.zeros_like(q), q.shape[1] // k.shape[1]
    seen = everything(causal(offsets, key_ranges)) if seen is None else seen
    for s in range(len(offsets) - 1):
        rows, keys = slice(offsets[s], offsets[s + 1]), slice(*key_ranges[s])
        for h in range(q.shape[1]):
            scores = scores_of(q[rows, h], k[keys, h // group], part_of(seen, rows), scale)
            out[rows, h] = probabilities(scores) @ v[keys, h // group]
    return out


@st.composite
def layouts(draw: DrawFn, longest: int = 6, cached: bool | None = None) -> tuple[Array, Array]:
    """Draw offsets of ragged sequences (some empty) and key ranges: the same rows, or with a past and with gaps."""
    lengths = draw(st.lists(st.integers(0, longest), min_size=0, max_size=3))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if cached is False or not draw(st.booleans()):
        return offsets, np.stack([offsets[:-1], offsets[1:]], axis=1)
    ranges, first = [], 0
    for length in lengths:
        first += draw(st.integers(0, 2))  # key rows that belong to no sequence
        last = first + length + draw(st.integers(0, 3))
        ranges.append((first, last))
        first = last
    return offsets, np.array(ranges, np.int64).reshape(-1, 2)


@st.composite
def heads(draw: DrawFn) -> tuple[int, int, int]:
    """Draw (query heads, key/value heads, head size)."""
    groups, per_group, size = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 5]))
    return groups * per_group, groups, size


@st.composite
def arguments(draw: DrawFn, dtype: Any) -> Arguments:
    (offsets, ranges), (num_heads, groups, size) = draw(layouts()), draw(heads())
    q = numbers(draw, dtype, offsets[-1], num_heads * size)
    key_rows = int(ranges.max(initial=0)) + 1
    k, v = (numbers(draw, dtype, key_rows, groups * size) for _ in range(2))
    part = span(draw, (len(offsets) - 1) * groups)
    seen = everything(causal(offsets, ranges))
    if draw(st.booleans()):  # any numbers that rise within a sequence, 0 among them
        for a, b, (first, last) in zip(offsets[:-1], offsets[1:], ranges, strict=True):
            seen.visible[a:b] = sorted(draw(st.integers(0, last - first)) for _ in range(b - a))
    if draw(st.booleans()):
        for a, b in itertools.pairwise(offsets):
            drawn = sorted(draw(st.integers(0, 5)) for _ in range(b - a))
            seen.first[a:b] = np.minimum(drawn, seen.visible[a:b])
    draws = draw(some_draws(dtype, draw(st.sampled_from([0, 2**30, 2**31]))))
    inputs = Inputs(q, k, v, offsets, ranges, seen, groups, dtype(0.7), draws, Arithmetic(np.empty(0, dtype), False))
    denominators = Denominators(*(np.full((len(q), num_heads), UNTOUCHED, dtype) for _ in range(2)))
    return [inputs, untouched(q), denominators, *part]


def causal_case(dtype: Any, lengths: list[int], past: int = 0, heads: tuple[int, int, int] = (4, 2, 5)) -> Any:
    """Return queries, keys, values, and the plan of causal sequences, each with `past` keys before its queries."""
    rng, (num_heads, kv_heads, size) = np.random.default_rng(0), heads
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ends = np.cumsum([length + past for length in lengths])
    ranges = np.stack([ends - np.array(lengths) - past, ends], axis=1).astype(np.int64)
    q = rng.normal(size=(offsets[-1], num_heads, size)).astype(dtype)
    k, v = (rng.normal(size=(ends[-1], kv_heads, size)).astype(dtype) for _ in range(2))
    return q, k, v, Plan(offsets, ranges, causal(offsets, ranges), 0.3)


class _Head(NamedTuple):
    """One query head of one sequence, and where it lies in the arrays."""

    rows: slice
    keys: slice
    number: int
    columns: slice  # of queries
    shared: slice  # the columns of keys and values


def each_head(inputs: Inputs, start: int, stop: int) -> Iterator[_Head]:
    """Go through the query heads of the tasks from start to stop."""
    size = inputs.k.shape[1] // inputs.kv_heads
    group = inputs.q.shape[1] // inputs.k.shape[1]
    for task in range(start, stop):
        s, g = task // inputs.kv_heads, task % inputs.kv_heads
        rows, keys = slice(inputs.offsets[s], inputs.offsets[s + 1]), slice(*inputs.ranges[s])
        for h in range(g * group, (g + 1) * group):
            yield _Head(rows, keys, h, slice(h * size, (h + 1) * size), slice(g * size, (g + 1) * size))


def scores_of_head(inputs: Inputs, head: _Head) -> Array:
    q, k = inputs.q[head.rows, head.columns], inputs.k[head.keys, head.shared]
    return scores_of(q, k, part_of(inputs.seen, head.rows), inputs.scale)


def dropout_mask(rows: slice, head: int, num_heads: int, num_keys: int, draws: Draws) -> Array:
    """Return what each probability (queries, keys) of one sequence and head is multiplied by."""
    words = np.array([draws.key_low, draws.key_high, draws.step, draws.op_index], np.uint64)
    in_batch = slice(draws.first + rows.start, draws.first + rows.stop)
    return mask_of(in_batch, head, num_heads, num_keys, words, draws.threshold, draws.keep_scale)


def _attention_tasks(inputs: Inputs, out: Array, denominators: Denominators, start: int, stop: int) -> None:
    for head in each_head(inputs, start, stop):
        scores = scores_of_head(inputs, head)
        largest = scores.max(axis=1, initial=-np.inf)
        denominators.largest[head.rows, head.number] = largest / inputs.scale
        relative = scores - np.where(np.isneginf(largest), 0, largest)[:, None]
        denominators.total[head.rows, head.number] = np.exp(relative).sum(axis=1)
        mask = dropout_mask(head.rows, head.number, denominators.total.shape[1], scores.shape[1], inputs.draws)
        out[head.rows, head.columns] = (probabilities(scores) * mask) @ inputs.v[head.keys, head.shared]


def _size_of_head(inputs: Inputs) -> int:
    return inputs.k.shape[1] // inputs.kv_heads


@st.composite
def _arguments_with_memory(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, *rest = draw(arguments(dtype))
    most = int(np.diff(inputs.ranges).max(initial=0))
    return [inputs, *rest, forward_workspace(inputs.q, inputs.arithmetic.packed, _size_of_head(inputs), most)]


def _attend_in(inputs: Inputs, out: Array, denominators: Denominators, start: int, stop: int, workspace: Any) -> None:
    _attention_tasks(inputs, out, denominators, start, stop)


@st.composite
def _backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, out, denominators, *part = draw(arguments(dtype))
    _attention_tasks(inputs, out, denominators, 0, (len(inputs.offsets) - 1) * inputs.kv_heads)
    saved = Saved(numbers(draw, dtype, *out.shape), out, denominators)
    gradients = Gradients(*(untouched(x) for x in (inputs.q, inputs.k, inputs.v)))
    return [inputs, saved, gradients, *part]


def _attention_backward_tasks(inputs: Inputs, saved: Saved, gradients: Gradients, start: int, stop: int) -> None:
    heads = list(each_head(inputs, start, stop))
    for head in heads:
        gradients.dk[head.keys, head.shared] = 0
        gradients.dv[head.keys, head.shared] = 0
    for head in heads:
        p = probabilities(scores_of_head(inputs, head))
        mask = dropout_mask(head.rows, head.number, saved.denominators.total.shape[1], p.shape[1], inputs.draws)
        dout = saved.dout[head.rows, head.columns]
        dp = dout @ inputs.v[head.keys, head.shared].T * mask
        ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) * inputs.scale
        gradients.dq[head.rows, head.columns] += ds @ inputs.k[head.keys, head.shared]
        gradients.dk[head.keys, head.shared] += ds.T @ inputs.q[head.rows, head.columns]
        gradients.dv[head.keys, head.shared] += (p * mask).T @ dout


@st.composite
def _backward_arguments_with_memory(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, *rest = draw(_backward_arguments(dtype))
    return [inputs, *rest, backward_workspace(inputs.q, inputs.arithmetic.packed, _size_of_head(inputs))]


def _add_gradients_in(
    inputs: Inputs, saved: Saved, gradients: Gradients, start: int, stop: int, workspace: Any
) -> None:
    _attention_backward_tasks(inputs, saved, gradients, start, stop)


@st.composite
def _task_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs = draw(arguments(dtype).filter(lambda drawn: len(drawn[0].offsets) > 1))[0]
    return [inputs, draw(st.integers(0, (len(inputs.offsets) - 1) * inputs.kv_heads - 1))]


def _task_of(inputs: Inputs, number: int) -> Task:
    sequence, head = divmod(number, inputs.kv_heads)
    (first, last), keys = inputs.offsets[sequence : sequence + 2], inputs.ranges[sequence]
    size, group = inputs.k.shape[1] // inputs.kv_heads, inputs.q.shape[1] // inputs.k.shape[1]
    return Task(HeadGroup(head, inputs.kv_heads, group, size), first, (last - first) * group, keys[0], np.diff(keys)[0])


@st.composite
def _span_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    words = numbers(draw, np.float32, draw(st.integers(0, 6)), draw(st.sampled_from([1, 5, 40])))
    spans = [sorted(draw(st.integers(0, len(words))) for _ in range(2)) for _ in range(draw(st.integers(0, 4)))]
    return [words.view(np.uint32), np.array(spans, np.int64).reshape(-1, 2), np.full(len(spans), 7, np.uint32)]


def _largest_of_spans(words: Array, spans: Array, largest: Array) -> None:
    for s, (first, last) in enumerate(spans):
        largest[s] = np.abs(words[first:last].view(np.float32)).max(initial=0).view(np.uint32)


TWINS: dict[str, Twin] = {
    "attention.plan.largest_of_spans": Twin(_span_arguments, _largest_of_spans),
    "attention.plan.task_of": Twin(_task_arguments, _task_of),
    "attention.forward._attention_tasks": Twin(arguments, _attention_tasks),
    "attention.forward._attend_in": Twin(_arguments_with_memory, _attend_in, scratch=1),
    "attention.backward._attention_backward_tasks": Twin(_backward_arguments, _attention_backward_tasks),
    "attention.backward._add_gradients_in": Twin(_backward_arguments_with_memory, _add_gradients_in, scratch=1),
}
