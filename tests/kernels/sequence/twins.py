"""Twins of the loops along a sequence: attention over a few keys, running means, and the merging scan."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.sequence.context_attention import Inputs
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers, span, untouched


def context_attention(q: Array, k: Array, v: Array, scale: float) -> tuple[Array, Array]:
    """q (rows, H, D), k and v (rows, L, G, D) -> attended values (rows, H, D) and probabilities (rows, H, L)."""
    group = q.shape[1] // k.shape[2]
    keys, values = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)  # (rows, L, H, D)
    scores = np.einsum("rhd,rlhd->rhl", q, keys) * scale
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probabilities: Array = e / e.sum(axis=-1, keepdims=True)
    return np.einsum("rhl,rlhd->rhd", probabilities, values), probabilities


@st.composite
def _context_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    count, groups, per_group, size = (draw(st.integers(1, 3)) for _ in range(4))
    heads, length = groups * per_group, draw(st.integers(0, 4))
    q = numbers(draw, dtype, length, heads * size)
    k, v = (numbers(draw, dtype, length, count * groups * size) for _ in range(2))
    probabilities = np.full((length, heads * count), UNTOUCHED, dtype)
    return [Inputs(q, k, v, heads, groups, dtype(0.7)), untouched(q), probabilities, *span(draw, length)]


@st.composite
def _context_backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, y, probabilities, *part = draw(_context_arguments(dtype))
    _context_attention_rows(inputs, y, probabilities, 0, len(y))
    gradients = tuple(untouched(x) for x in (inputs.q, inputs.k, inputs.v))
    return [numbers(draw, dtype, *y.shape), inputs, probabilities, gradients, *part]


def _shapes(inputs: Inputs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    q, k, _, heads, kv_heads, _ = inputs
    size = q.shape[1] // heads
    return (len(q), heads, size), (len(q), k.shape[1] // (kv_heads * size), kv_heads, size)


def _context_attention_rows(inputs: Inputs, y: Array, probabilities: Array, start: int, stop: int) -> None:
    of_q, of_k = _shapes(inputs)
    q, k, v = inputs.q.reshape(of_q), inputs.k.reshape(of_k), inputs.v.reshape(of_k)
    attended, found = context_attention(q, k, v, inputs.scale)
    y[start:stop] = attended.reshape(y.shape)[start:stop]
    probabilities[start:stop] = found.reshape(probabilities.shape)[start:stop]


def _context_attention_backward_rows(
    dy: Array, inputs: Inputs, probabilities: Array, gradients: tuple[Array, ...], start: int, stop: int
) -> None:
    of_q, of_k = _shapes(inputs)
    group, part = inputs.heads // inputs.kv_heads, slice(start, stop)
    slopes, queries = dy.reshape(of_q), inputs.q.reshape(of_q)
    keys, values = (np.repeat(x.reshape(of_k), group, axis=2) for x in (inputs.k, inputs.v))
    p = probabilities.reshape(len(dy), inputs.heads, of_k[1])
    dp = np.einsum("rhd,rlhd->rhl", slopes, values)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * inputs.scale
    dq, dk, dv = gradients
    dq[part] = np.einsum("rhl,rlhd->rhd", ds, keys).reshape(dq.shape)[part]
    for result, weights, other in ((dk, ds, queries), (dv, p, slopes)):
        by_head = np.einsum("rhl,rhd->rlhd", weights, other)
        shared = by_head.reshape(*of_k[:3], group, of_k[3]).sum(axis=3)
        result[part] = shared.reshape(result.shape)[part]


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
    return [x, offsets, *([] if backward else [sums]), counts, untouched(x), *span(draw, len(counts))]


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
    threshold = draw(st.sampled_from([0.9, 0.5, -0.5]))
    return [x.reshape(-1, 2), offsets, threshold, np.ones(len(x), bool), *span(draw, len(offsets) - 1)]


def _merge_sequences(x: Array, offsets: Array, threshold: float, joins: Array, start: int, stop: int) -> None:
    for s in range(start, stop):
        i = offsets[s]
        joins[i : offsets[s + 1]] = False
        while i + 1 < offsets[s + 1]:
            norms = np.linalg.norm(x[i]) * np.linalg.norm(x[i + 1])
            joins[i + 1] = (x[i] @ x[i + 1] / norms if norms else 0) > threshold
            i += 2 if joins[i + 1] else 1


TWINS: dict[str, Twin] = {
    "sequence.context_attention._context_attention_rows": Twin(_context_arguments, _context_attention_rows),
    "sequence.context_attention._context_attention_backward_rows": Twin(
        _context_backward_arguments, _context_attention_backward_rows
    ),
    "sequence.merging._merge_sequences": Twin(_merge_arguments, _merge_sequences),
    "sequence.prefix_mean._prefix_mean_sequences": Twin(
        lambda dtype: _prefix_arguments(dtype, backward=False), _prefix_mean_sequences
    ),
    "sequence.prefix_mean._prefix_mean_backward_sequences": Twin(
        lambda dtype: _prefix_arguments(dtype, backward=True), _prefix_mean_backward_sequences
    ),
}
