"""Attention with the whole T x T matrix in the open: the twin of the tiled kernels and of the op."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.kernels.twins import UNTOUCHED, Arguments, Array, Twin, log_sum_exp, numbers


def scores_of(q: Array, k: Array, scale: float) -> Array:
    """Return one sequence's and one head's scores (queries, keys); -inf where a key lies in the future."""
    past = len(k) - len(q)
    future = np.arange(len(k)) > past + np.arange(len(q))[:, None]
    return np.where(future, -np.inf, q @ k.T * scale)


def attention(q: Array, k: Array, v: Array, offsets: Array, key_ranges: Array, scale: float) -> Array:
    """Attend one sequence and one head at a time: q (rows, H, D), k and v (key rows, G, D) -> (rows, H, D)."""
    out, group = np.zeros_like(q), q.shape[1] // k.shape[1]
    for s in range(len(offsets) - 1):
        rows, keys = slice(offsets[s], offsets[s + 1]), slice(*key_ranges[s])
        for h in range(q.shape[1]):
            scores = scores_of(q[rows, h], k[keys, h // group], scale)
            if scores.size:
                out[rows, h] = np.exp(scores - log_sum_exp(scores)[:, None]) @ v[keys, h // group]
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
    return [q, k, v, *results, offsets, ranges, groups, dtype(0.7), *part]


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
    kv_heads: int,
    scale: float,
    start: int,
    stop: int,
) -> None:
    for rows, past, h, own, shared in _each_head(q, k, queries, keys, normaliser.shape[1], kv_heads, start, stop):
        scores = scores_of(q[rows, own], k[past, shared], scale)
        if scores.size:
            normaliser[rows, h] = log_sum_exp(scores)
            out[rows, own] = np.exp(scores - normaliser[rows, h, None]) @ v[past, shared]


@st.composite
def _backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    q, k, v, out, normaliser, queries, keys, groups, scale, start, stop = draw(_arguments(dtype))
    _attention_tasks(q, k, v, out, normaliser, queries, keys, groups, scale, 0, (len(queries) - 1) * groups)
    gradients = [np.full_like(x, UNTOUCHED) for x in (q, k, v)]
    dout = numbers(draw, dtype, *q.shape)
    return [dout, q, k, v, out, normaliser, queries, keys, groups, scale, *gradients, start, stop]


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
    heads_of = list(_each_head(q, k, queries, keys, normaliser.shape[1], kv_heads, start, stop))
    for _, past, _, _, shared in heads_of:
        dk[past, shared], dv[past, shared] = 0, 0
    for rows, past, h, own, shared in heads_of:
        p = np.exp(scores_of(q[rows, own], k[past, shared], scale) - normaliser[rows, h, None])
        dp = dout[rows, own] @ v[past, shared].T
        ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) * scale
        dq[rows, own] = ds @ k[past, shared]
        dk[past, shared] += ds.T @ q[rows, own]
        dv[past, shared] += p.T @ dout[rows, own]


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
