"""Twins of the kernels under Wiola: gates, attention over a few keys, running means, and the merging scan."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.kernels.twins import UNTOUCHED, Arguments, Array, Twin, numbers, rows


def logistic(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _sigmoid_gate_rows(x: Array, gate: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = (x * logistic(gate))[start:stop]


def _sigmoid_gate_backward_rows(dy: Array, x: Array, gate: Array, dx: Array, dg: Array, start: int, stop: int) -> None:
    s = logistic(gate)
    dx[start:stop], dg[start:stop] = (dy * s)[start:stop], (dy * x * s * (1 - s))[start:stop]


def _blend_rows(a: Array, b: Array, gate: Array, y: Array, start: int, stop: int) -> None:
    s = logistic(gate)
    y[start:stop] = (s * a + (1 - s) * b)[start:stop]


def _blend_backward_rows(
    dy: Array, a: Array, b: Array, gate: Array, da: Array, db: Array, dg: Array, start: int, stop: int
) -> None:
    s, part = logistic(gate), slice(start, stop)
    da[part], db[part] = (dy * s)[part], (dy * (1 - s))[part]
    dg[part] = (dy * (a - b) * s * (1 - s))[part]


def context_attention(q: Array, k: Array, v: Array, scale: float) -> tuple[Array, Array]:
    """q (rows, H, D), k and v (rows, L, G, D) -> mixtures (rows, H, D) and shares (rows, H, L)."""
    group = q.shape[1] // k.shape[2]
    keys, values = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)  # (rows, L, H, D)
    scores = np.einsum("rhd,rlhd->rhl", q, keys) * scale
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Array = e / e.sum(axis=-1, keepdims=True)
    return np.einsum("rhl,rlhd->rhd", shares, values), shares


@st.composite
def _context_arguments(draw: DrawFn, dtype: Any, backward: bool) -> Arguments:
    count, groups, per_group, size = (draw(st.integers(1, 3)) for _ in range(4))
    heads, length = groups * per_group, draw(st.integers(0, 4))
    q = numbers(draw, dtype, length, heads * size)
    k, v = (numbers(draw, dtype, length, count * groups * size) for _ in range(2))
    part = sorted((draw(st.integers(0, length)), draw(st.integers(0, length))))
    y, shares = np.full_like(q, UNTOUCHED), np.full((length, heads * count), UNTOUCHED, dtype)
    if not backward:
        return [q, k, v, y, shares, heads, groups, dtype(0.7), *part]
    _context_attention_rows(q, k, v, y, shares, heads, groups, 0.7, 0, length)
    gradients = [np.full_like(x, UNTOUCHED) for x in (q, k, v)]
    return [numbers(draw, dtype, *q.shape), q, k, v, shares, *gradients, heads, groups, dtype(0.7), *part]


def _unflat(q: Array, k: Array, heads: int, kv_heads: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    size = q.shape[1] // heads
    return (len(q), heads, size), (len(q), k.shape[1] // (kv_heads * size), kv_heads, size)


def _context_attention_rows(
    q: Array,
    k: Array,
    v: Array,
    y: Array,
    shares: Array,
    heads: int,
    kv_heads: int,
    scale: float,
    start: int,
    stop: int,
) -> None:
    of_q, of_k = _unflat(q, k, heads, kv_heads)
    mixed, found = context_attention(q.reshape(of_q), k.reshape(of_k), v.reshape(of_k), scale)
    y[start:stop] = mixed.reshape(q.shape)[start:stop]
    shares[start:stop] = found.reshape(shares.shape)[start:stop]


def _context_attention_backward_rows(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    shares: Array,
    dq: Array,
    dk: Array,
    dv: Array,
    heads: int,
    kv_heads: int,
    scale: float,
    start: int,
    stop: int,
) -> None:
    of_q, of_k = _unflat(q, k, heads, kv_heads)
    group, part = heads // kv_heads, slice(start, stop)
    slopes, queries = dy.reshape(of_q), q.reshape(of_q)
    keys, values = (np.repeat(x.reshape(of_k), group, axis=2) for x in (k, v))
    p = shares.reshape(len(q), heads, of_k[1])
    dp = np.einsum("rhd,rlhd->rhl", slopes, values)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    dq[part] = np.einsum("rhl,rlhd->rhd", ds, keys).reshape(q.shape)[part]
    for result, pattern, weights, other in ((dk, "rhl,rhd->rlhd", ds, queries), (dv, "rhl,rhd->rlhd", p, slopes)):
        by_head = np.einsum(pattern, weights, other)
        shared = by_head.reshape(*of_k[:3], group, of_k[3]).sum(axis=3)
        result[part] = shared.reshape(k.shape)[part]


@st.composite
def sequences(draw: DrawFn) -> Array:
    """Draw the offsets of up to three sequences, some empty."""
    lengths = draw(st.lists(st.integers(0, 5), max_size=3))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@st.composite
def _prefix_arguments(draw: DrawFn, dtype: Any, backward: bool) -> Arguments:
    offsets, width = draw(sequences()), draw(st.integers(1, 3))
    x, sums = numbers(draw, dtype, offsets[-1], width), numbers(draw, np.float64, len(offsets) - 1, width)
    counts = np.array([draw(st.integers(0, 4)) for _ in offsets[1:]], np.int64)
    part = sorted((draw(st.integers(0, len(counts))), draw(st.integers(0, len(counts)))))
    return [x, offsets, *([] if backward else [sums]), counts, np.full_like(x, UNTOUCHED), *part]


def _prefix_mean_sequences(
    x: Array, offsets: Array, sums: Array, counts: Array, y: Array, start: int, stop: int
) -> None:
    for s in range(start, stop):
        rows = slice(offsets[s], offsets[s + 1])
        for t in range(rows.start, rows.stop):
            seen = x[rows.start : t + 1].astype(np.float64)
            y[t] = (sums[s] + seen.sum(axis=0)) / (counts[s] + len(seen))


def _prefix_mean_backward_sequences(dy: Array, offsets: Array, counts: Array, dx: Array, start: int, stop: int) -> None:
    for s in range(start, stop):
        length = offsets[s + 1] - offsets[s]
        weights = np.tril(np.ones((length, length))) / (counts[s] + np.arange(1, length + 1))[:, None]
        dx[offsets[s] : offsets[s + 1]] = weights.T @ dy[offsets[s] : offsets[s + 1]]


@st.composite
def _merge_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    # Directions 45 degrees apart and one row of zeros: no cosine comes near the threshold.
    offsets = draw(sequences())
    directions = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [-1, 1]], dtype)
    x = directions[[draw(st.integers(0, 4)) for _ in range(offsets[-1])]] * dtype(draw(st.sampled_from([0.5, 3])))
    part = sorted((draw(st.integers(0, len(offsets) - 1)), draw(st.integers(0, len(offsets) - 1))))
    return [x.reshape(-1, 2), offsets, draw(st.sampled_from([0.9, 0.5, -0.5])), np.ones(len(x), bool), *part]


def _merge_sequences(x: Array, offsets: Array, threshold: float, joins: Array, start: int, stop: int) -> None:
    for s in range(start, stop):
        i = offsets[s]
        joins[i : offsets[s + 1]] = False
        while i + 1 < offsets[s + 1]:
            lengths = np.linalg.norm(x[i]) * np.linalg.norm(x[i + 1])
            joins[i + 1] = (x[i] @ x[i + 1] / lengths if lengths else 0) > threshold
            i += 2 if joins[i + 1] else 1


WIOLA_TWINS: dict[str, Twin] = {
    "sequence.context_attention._context_attention_rows": Twin(
        lambda dtype: _context_arguments(dtype, backward=False), _context_attention_rows
    ),
    "sequence.context_attention._context_attention_backward_rows": Twin(
        lambda dtype: _context_arguments(dtype, backward=True), _context_attention_backward_rows
    ),
    "rowwise.gating._sigmoid_gate_rows": Twin(rows(2, 1), _sigmoid_gate_rows),
    "rowwise.gating._sigmoid_gate_backward_rows": Twin(rows(3, 2), _sigmoid_gate_backward_rows),
    "rowwise.gating._blend_rows": Twin(rows(3, 1), _blend_rows),
    "rowwise.gating._blend_backward_rows": Twin(rows(4, 3), _blend_backward_rows),
    "sequence.merging._merge_sequences": Twin(_merge_arguments, _merge_sequences),
    "sequence.prefix_mean._prefix_mean_sequences": Twin(
        lambda dtype: _prefix_arguments(dtype, backward=False), _prefix_mean_sequences
    ),
    "sequence.prefix_mean._prefix_mean_backward_sequences": Twin(
        lambda dtype: _prefix_arguments(dtype, backward=True), _prefix_mean_backward_sequences
    ),
}
