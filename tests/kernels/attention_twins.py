"""Attention with the whole T x T matrix in the open: the twin of the tiled kernels and of the op."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.kernels.twins import UNTOUCHED, Arguments, Array, Twin, log_sum_exp, numbers, philox


def scores_of(q: Array, k: Array, visible: Array, scale: float) -> Array:
    """Return one sequence's and one head's scores (queries, keys); -inf where a query does not see a key."""
    return np.where(np.arange(len(k)) < visible[:, None], q @ k.T * scale, -np.inf)


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


def mask_of(rows: slice, head: int, num_heads: int, num_keys: int, words: Array, threshold: int, kept: float) -> Array:
    """Return what each probability (queries, keys) of one sequence and head is multiplied by."""
    places = np.arange(rows.start, rows.stop) * num_heads + head
    draws = [philox_words(np.arange(-(-num_keys // 4)), place, words) for place in places]
    drawn = np.array(draws).reshape(len(places), 4 * -(-num_keys // 4))[:, :num_keys]
    return np.where(drawn >= threshold, kept, 0.0)


def philox_words(blocks: Array, place: int, words: Array) -> Array:
    """Return four draws for each counter (block, place)."""
    key, step, index = (int(words[0]), int(words[1])), int(words[2]), int(words[3])
    return np.array([philox(np.array([int(b) | int(place) << 32]), (step, index), key)[0] for b in blocks])


def attention(
    q: Array, k: Array, v: Array, offsets: Array, key_ranges: Array, scale: float, visible: Array | None = None
) -> Array:
    """Attend one sequence and one head at a time: q (rows, H, D), k and v (key rows, G, D) -> (rows, H, D)."""
    out, group = np.zeros_like(q), q.shape[1] // k.shape[1]
    visible = causal(offsets, key_ranges) if visible is None else visible
    for s in range(len(offsets) - 1):
        rows, keys = slice(offsets[s], offsets[s + 1]), slice(*key_ranges[s])
        for h in range(q.shape[1]):
            scores = scores_of(q[rows, h], k[keys, h // group], visible[rows], scale)
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
def _arguments(draw: DrawFn, dtype: Any) -> Arguments:
    (offsets, ranges), (num_heads, groups, size) = draw(layouts()), draw(heads())
    q = numbers(draw, dtype, offsets[-1], num_heads * size)
    key_rows = int(ranges.max(initial=0)) + 1
    k, v = (numbers(draw, dtype, key_rows, groups * size) for _ in range(2))
    tasks = (len(offsets) - 1) * groups
    part = sorted((draw(st.integers(0, tasks)), draw(st.integers(0, tasks))))
    results = [np.full_like(q, UNTOUCHED), np.full((len(q), num_heads), UNTOUCHED, dtype)]
    visible = causal(offsets, ranges)
    if draw(st.booleans()):  # any numbers that rise within a sequence, 0 among them
        for a, b, (first, last) in zip(offsets[:-1], offsets[1:], ranges, strict=True):
            visible[a:b] = sorted(draw(st.integers(0, last - first)) for _ in range(b - a))
    words = np.array([draw(st.integers(0, 2**32 - 1)) for _ in range(4)], np.uint32)
    threshold = draw(st.sampled_from([0, 2**30, 2**31]))
    kept = dtype(1 / (1 - threshold / 2**32))
    return [q, k, v, *results, offsets, ranges, visible, words, threshold, kept, groups, dtype(0.7), *part]


def _each_head(
    q: Array, k: Array, queries: Array, keys: Array, num_heads: int, groups: int, start: int, stop: int
) -> Any:
    """Go through (rows, keys, query head, its columns, its key/value columns) of the tasks from start to stop."""
    size, group = k.shape[1] // groups, num_heads // groups
    for task in range(start, stop):
        s, g = task // groups, task % groups
        for h in range(g * group, (g + 1) * group):
            yield (
                slice(queries[s], queries[s + 1]),
                slice(*keys[s]),
                h,
                slice(h * size, (h + 1) * size),
                slice(g * size, (g + 1) * size),
            )


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
    num_heads = normaliser.shape[1]
    for rows, past, h, own, shared in _each_head(q, k, queries, keys, num_heads, kv_heads, start, stop):
        scores = scores_of(q[rows, own], k[past, shared], visible[rows], scale)
        with np.errstate(divide="ignore"):
            normaliser[rows, h] = np.log(np.exp(scores).sum(axis=1))
        mask = mask_of(rows, h, num_heads, scores.shape[1], words, threshold, kept)
        out[rows, own] = (probabilities(scores) * mask) @ v[past, shared]


@st.composite
def _backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    *given, groups, scale, start, stop = draw(_arguments(dtype))
    _attention_tasks(*given, groups, scale, 0, (len(given[5]) - 1) * groups)
    gradients = [np.full_like(x, UNTOUCHED) for x in given[:3]]
    return [numbers(draw, dtype, *given[0].shape), *given, groups, scale, *gradients, start, stop]


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
    num_heads = normaliser.shape[1]
    heads_of = list(_each_head(q, k, queries, keys, num_heads, kv_heads, start, stop))
    for _, past, _, _, shared in heads_of:
        dk[past, shared], dv[past, shared] = 0, 0
    for rows, past, h, own, shared in heads_of:
        p = probabilities(scores_of(q[rows, own], k[past, shared], visible[rows], scale))
        mask = mask_of(rows, h, num_heads, p.shape[1], words, threshold, kept)
        dp = dout[rows, own] @ v[past, shared].T * mask
        ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) * scale
        dq[rows, own] = ds @ k[past, shared]
        dk[past, shared] += ds.T @ q[rows, own]
        dv[past, shared] += (p * mask).T @ dout[rows, own]


@st.composite
def _product_arguments(draw: DrawFn, dtype: Any, transposed: bool) -> Arguments:
    m, k, n = (draw(st.integers(0, 9)) for _ in range(3))
    a = numbers(draw, dtype, k + 1, m + 2) if transposed else numbers(draw, dtype, m + 2, k + 1)
    return [a, numbers(draw, dtype, k + 1, n + 1), numbers(draw, dtype, m + 1, n + 2), m, k, n]


def _add_product(a: Array, b: Array, c: Array, m: int, k: int, n: int) -> None:
    c[:m, :n] += a[:m, :k] @ b[:k, :n]


def _add_transposed_product(a: Array, b: Array, c: Array, m: int, k: int, n: int) -> None:
    c[:m, :n] += a[:k, :m].T @ b[:k, :n]


@st.composite
def _load_rows_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    first, count, group, column, size = (draw(st.integers(0, 3)) for _ in range(5))
    x = numbers(draw, dtype, first + count + 1, column + group * size + 1)
    return [x, first, count, group, column, size, numbers(draw, dtype, count * group + 1, size + 1)]


def _load_rows(x: Array, first: int, count: int, group: int, column: int, size: int, tile: Array) -> None:
    part = x[first : first + count, column : column + group * size]
    tile[: count * group, :size] = part.reshape(count * group, size)


@st.composite
def _load_columns_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    first, count, column, size = (draw(st.integers(0, 3)) for _ in range(4))
    x = numbers(draw, dtype, first + count + 1, column + size + 1)
    return [x, first, count, column, size, numbers(draw, dtype, size + 1, count + 1)]


def _load_columns(x: Array, first: int, count: int, column: int, size: int, tile: Array) -> None:
    tile[:size, :count] = x[first : first + count, column : column + size].T


ATTENTION_TWINS: dict[str, Twin] = {
    "tiles.add_product": Twin(lambda dtype: _product_arguments(dtype, transposed=False), _add_product),
    "tiles.add_transposed_product": Twin(
        lambda dtype: _product_arguments(dtype, transposed=True), _add_transposed_product
    ),
    "tiles.load_rows": Twin(_load_rows_arguments, _load_rows),
    "tiles.load_columns": Twin(_load_columns_arguments, _load_columns),
    "attention._attention_tasks": Twin(_arguments, _attention_tasks),
    "attention._attention_backward_tasks": Twin(_backward_arguments, _attention_backward_tasks),
}
