"""Attention with the whole T x T matrix in the open: the twin of the tiled kernels and of the op."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.attention.tiles import COLUMNS, ROWS
from minigrad.kernels.codegen.vector_moves import SIDE
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
def _product_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    m, k, n = (draw(st.integers(0, 9)) for _ in range(3))
    return [
        numbers(draw, dtype, m + 2, k + 1),
        numbers(draw, dtype, k + 1, n + 1),
        numbers(draw, dtype, m + 1, n + 2),
        m,
        k,
        n,
    ]


def _add_product(a: Array, b: Array, c: Array, m: int, k: int, n: int) -> None:
    c[:m, :n] += a[:m, :k] @ b[:k, :n]


SIDES = st.sampled_from([0, 1, 2, ROWS - 1, ROWS, ROWS + 1, 40])


@st.composite
def _panel_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    rows, steps, depth = draw(st.sampled_from([0, ROWS, 3 * ROWS])), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    steps = max(steps, depth)
    a, b = numbers(draw, dtype, 2 + rows * steps), numbers(draw, dtype, 3 + depth * COLUMNS)
    c = numbers(draw, dtype, 4 + rows * COLUMNS)
    return [a, 2, steps, rows, b, 3, depth, c, 4, draw(st.booleans())]


def _panel_product(
    a: Array, a_start: int, steps: int, rows: int, b: Array, b_start: int, depth: int, c: Array, c_start: int, add: bool
) -> None:
    left = a[a_start : a_start + rows * steps].reshape(-1, steps, ROWS)[:, :depth].swapaxes(1, 2).reshape(rows, depth)
    block = c[c_start : c_start + rows * COLUMNS].reshape(rows, COLUMNS)
    block[...] = left @ b[b_start : b_start + depth * COLUMNS].reshape(depth, COLUMNS) + (block if add else 0)


@st.composite
def _plain_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    a, a_start, steps, _, b, b_start, depth, _, _, add = draw(_panel_arguments(dtype))
    a = numbers(draw, dtype, a_start + ROWS * steps)
    return [a, a_start, b, b_start, depth, numbers(draw, dtype, 1 + ROWS * COLUMNS), 1, add]


def _plain_block(a: Array, a_start: int, b: Array, b_start: int, depth: int, c: Array, c_start: int, add: bool) -> None:
    _panel_product(a, a_start, depth, ROWS, b, b_start, depth, c, c_start, add)


@st.composite
def _turn_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    rows, columns = draw(SIDES), draw(SIDES)
    stride, step = columns + draw(st.integers(0, 2)), rows + draw(st.integers(0, 2))
    x = numbers(draw, dtype, 1 + max(rows, SIDE) * stride + SIDE)
    return [x, 1, stride, rows, columns, np.full(2 + columns * step, UNTOUCHED, dtype), 2, step]


def _turn(x: Array, start: int, stride: int, rows: int, columns: int, y: Array, place: int, step: int) -> None:
    for i in range(rows):
        for j in range(columns):
            y[place + j * step + i] = x[start + i * stride + j]


@st.composite
def _rows_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    count, size, stride = draw(SIDES), draw(SIDES), 45
    x = numbers(draw, dtype, 1 + count * stride)
    height = (-(-count // ROWS) + draw(st.integers(0, 1))) * ROWS
    return [x, 1, stride, count, height, size, np.full(2 + height * size, UNTOUCHED, dtype), 2]


def _rows_as_slivers(
    x: Array, start: int, stride: int, count: int, height: int, size: int, y: Array, place: int
) -> None:
    full = np.zeros((height, size), x.dtype)
    full[:count] = _matrix(x, start, stride, count, size)
    y[place : place + full.size] = full.reshape(len(full) // ROWS, ROWS, size).swapaxes(1, 2).reshape(-1)


def _matrix(x: Array, start: int, stride: int, count: int, size: int) -> Array:
    return x[start : start + count * stride].reshape(count, stride)[:, :size]


@st.composite
def _columns_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, start, stride, count, _, size, _, _ = draw(_rows_arguments(dtype))
    depth = count + draw(st.integers(0, 3))
    return [x, start, stride, count, depth, size, np.full(2 + -(-size // ROWS) * ROWS * depth, UNTOUCHED, dtype), 2]


def _columns_as_slivers(
    x: Array, start: int, stride: int, count: int, depth: int, size: int, y: Array, place: int
) -> None:
    full = np.zeros((depth, -(-size // ROWS) * ROWS), x.dtype)
    full[:count, :size] = _matrix(x, start, stride, count, size)
    y[place : place + full.size] = full.reshape(depth, full.shape[1] // ROWS, ROWS).swapaxes(0, 1).reshape(-1)


@st.composite
def _queries_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    group, size, first, row = (draw(st.integers(1, 3)) for _ in range(4))
    count, column = draw(st.integers(0, COLUMNS)), draw(st.integers(0, 2))
    x = numbers(draw, dtype, first + (row + count) // group + 1, column + group * size + 1)
    return [x, first, row, count, group, column, size, np.full(COLUMNS * size + 1, UNTOUCHED, dtype)]


def _load_queries(x: Array, first: int, row: int, count: int, group: int, column: int, size: int, y: Array) -> None:
    full = np.zeros((COLUMNS, size), x.dtype)
    flat = x[first:, column : column + group * size].reshape(-1, size)
    full[:count] = flat[row : row + count]
    y[: COLUMNS * size] = full.reshape(-1)


@st.composite
def _tile(draw: DrawFn, dtype: Any) -> tuple[int, float, Array, int, Array]:
    n, begin = 4 * draw(st.integers(0, 2)), draw(st.integers(0, 3))
    seen = np.sort(np.random.default_rng(draw(st.integers(0, 99))).integers(0, n + begin + 2, COLUMNS))
    return n, dtype(0.7), seen, begin, np.arange(n)[:, None] + begin < seen


@st.composite
def _step_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    n, scale, seen, begin, _ = draw(_tile(dtype))
    largest = numbers(draw, dtype, COLUMNS)
    largest[draw(st.integers(0, COLUMNS)) :] = -np.inf
    total = np.abs(numbers(draw, dtype, COLUMNS)) * np.isfinite(largest)
    room = [np.zeros(COLUMNS, dtype), np.zeros(COLUMNS, dtype)]
    return [numbers(draw, dtype, n * COLUMNS + 1), n, scale, seen, begin, largest, total, *room]


def _softmax_step(
    scores: Array,
    n: int,
    scale: float,
    seen: Array,
    begin: int,
    largest: Array,
    total: Array,
    shrink: Array,
    top: Array,
) -> None:
    tile = scores[: n * COLUMNS].reshape(n, COLUMNS)
    tile[...] = np.where(np.arange(n)[:, None] + begin < seen, tile * scale, -np.inf)
    before = largest.copy()
    largest[...] = np.maximum(largest, tile.max(axis=0, initial=-np.inf))
    top[...] = np.where(np.isfinite(largest), largest, 0)
    shrink[...], tile[...] = np.exp(before - top), np.exp(tile - top)
    total[...] = total * shrink + tile.sum(axis=0)


@st.composite
def _slopes_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    n, scale, seen, begin, _ = draw(_tile(dtype))
    scores, slopes = (numbers(draw, dtype, n * COLUMNS + 1) for _ in range(2))
    return [scores, slopes, n, scale, seen, begin, numbers(draw, dtype, COLUMNS), numbers(draw, dtype, COLUMNS)]


@st.composite
def _hide_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    n, _, seen, begin, _ = draw(_tile(dtype))
    return [numbers(draw, dtype, n * COLUMNS + 1), n, seen, begin]


def _hide(scores: Array, n: int, seen: Array, begin: int) -> None:
    tile = scores[: n * COLUMNS].reshape(n, COLUMNS)
    tile[...] = np.where(np.arange(n)[:, None] + begin < seen, tile, -np.inf)


def _softmax_slopes(
    scores: Array, slopes: Array, n: int, scale: float, seen: Array, begin: int, logs: Array, dots: Array
) -> None:
    p, ds = (x[: n * COLUMNS].reshape(n, COLUMNS) for x in (scores, slopes))
    p[...] = np.where(np.arange(n)[:, None] + begin < seen, np.exp(p * scale - logs), 0)
    ds[...] = p * (ds - dots) * scale


@st.composite
def _draw_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    n, first, row, group = (draw(st.integers(1, 5)) for _ in range(4))
    count, head, begin = draw(st.integers(0, COLUMNS)), draw(st.integers(0, 1)), 4 * draw(st.integers(0, 2))
    words = np.array([draw(st.integers(0, 2**32 - 1)) for _ in range(4)], np.uint32)
    mask, drawn = np.full(n * COLUMNS + 1, UNTOUCHED, dtype), np.zeros(8, dtype)
    return [mask, drawn, n, first, row, count, group, head, 2, begin, words, 2**31, dtype(2)]


def _draw_panel(
    mask: Array,
    drawn: Array,
    n: int,
    first: int,
    row: int,
    count: int,
    group: int,
    head: int,
    kv_heads: int,
    begin: int,
    words: Array,
    threshold: int,
    kept: float,
) -> None:
    tile = mask[: n * COLUMNS].reshape(n, COLUMNS)
    tile[...] = 0
    for r in range(count):
        position, query_head = first + (row + r) // group, head * group + (row + r) % group
        rows = slice(position, position + 1)
        blocks = -(-n // 4)  # all four draws of the last counter are made
        whole = mask_of(rows, query_head, kv_heads * group, begin + 4 * blocks, words, threshold, kept)
        drawn[: 4 * blocks] = whole[0, begin:]
        tile[:, r] = drawn[:n]


ATTENTION_TWINS: dict[str, Twin] = {
    "gemm.cache_block.add_product": Twin(_product_arguments, _add_product),
    "attention.tiles.whole": Twin(
        lambda dtype: st.tuples(st.integers(0, 99), st.integers(1, 9)).map(list),
        lambda number, side: number + -number % side,
    ),
    "attention.tiles.plain_block": Twin(_plain_arguments, _plain_block),
    "attention.tiles.panel_product": Twin(_panel_arguments, _panel_product),
    "attention.tiles.hide": Twin(_hide_arguments, _hide),
    "attention.operands.turn": Twin(_turn_arguments, _turn),
    "attention.operands.rows_as_slivers": Twin(_rows_arguments, _rows_as_slivers),
    "attention.operands.columns_as_slivers": Twin(_columns_arguments, _columns_as_slivers),
    "attention.tiles.load_queries": Twin(_queries_arguments, _load_queries),
    "attention.tiles.draw_panel": Twin(_draw_arguments, _draw_panel),
    "attention.forward.softmax_step": Twin(_step_arguments, _softmax_step),
    "attention.backward.softmax_slopes": Twin(_slopes_arguments, _softmax_slopes),
    "attention.forward._attention_tasks": Twin(_arguments, _attention_tasks),
    "attention.backward.attention_backward_tasks": Twin(_backward_arguments, _attention_backward_tasks),
}
