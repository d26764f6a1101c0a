"""Twins of the attention of each row to a few keys of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from models.wiola.kernels.context_attention import ContextInputs
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
    return [ContextInputs(q, k, v, heads, groups, dtype(0.7)), untouched(q), probabilities, *span(draw, length)]


@st.composite
def _context_backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, y, probabilities, *part = draw(_context_arguments(dtype))
    _context_attention_rows(inputs, y, probabilities, 0, len(y))
    gradients = tuple(untouched(x) for x in (inputs.q, inputs.k, inputs.v))
    return [numbers(draw, dtype, *y.shape), inputs, probabilities, gradients, *part]


def _shapes(inputs: ContextInputs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    q, k, _, heads, kv_heads, _ = inputs
    size = q.shape[1] // heads
    return (len(q), heads, size), (len(q), k.shape[1] // (kv_heads * size), kv_heads, size)


def _context_attention_rows(inputs: ContextInputs, y: Array, probabilities: Array, start: int, stop: int) -> None:
    of_q, of_k = _shapes(inputs)
    q, k, v = inputs.q.reshape(of_q), inputs.k.reshape(of_k), inputs.v.reshape(of_k)
    attended, found = context_attention(q, k, v, inputs.scale)
    y[start:stop] = attended.reshape(y.shape)[start:stop]
    probabilities[start:stop] = found.reshape(probabilities.shape)[start:stop]


def _context_attention_backward_rows(
    dy: Array, inputs: ContextInputs, probabilities: Array, gradients: tuple[Array, ...], start: int, stop: int
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


TWINS: dict[str, Twin] = {
    "models.wiola.kernels.context_attention._context_attention_rows": Twin(_context_arguments, _context_attention_rows),
    "models.wiola.kernels.context_attention._context_attention_backward_rows": Twin(
        _context_backward_arguments, _context_attention_backward_rows
    ),
}
