"""Attention in which every row has a few keys of its own."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


class ContextInputs(NamedTuple):
    """Queries, keys and values; each query head has size D, and heads / kv_heads query heads share a key head."""

    q: Array  # (rows, heads * D)
    k: Array  # (rows, L * kv_heads * D)
    v: Array  # (rows, L * kv_heads * D)
    heads: int
    kv_heads: int
    scale: float  # of the scores


@kernel
def _context_attention_rows(inputs: ContextInputs, y: Array, probabilities: Array, start: int, stop: int) -> None:
    q, k, v, heads, kv_heads, scale = inputs
    size, count = q.shape[1] // heads, probabilities.shape[1] // heads
    for i in range(start, stop):
        for h in range(heads):
            base = h // (heads // kv_heads) * size
            top = q.dtype.type(-np.inf)
            for c in range(count):
                score = q.dtype.type(0)
                for d in range(size):
                    score += q[i, h * size + d] * k[i, c * kv_heads * size + base + d]
                score *= scale
                probabilities[i, h * count + c] = score
                top = max(top, score)
            # If every score is -inf, the probabilities are 0, as in softmax.
            shift = top if top > -np.inf else q.dtype.type(0)
            total = q.dtype.type(0)
            for c in range(count):
                e = exp(probabilities[i, h * count + c] - shift)
                probabilities[i, h * count + c] = e
                total += e
            total = total if total != q.dtype.type(0) else q.dtype.type(1)
            for d in range(size):
                y[i, h * size + d] = 0
            for c in range(count):
                p = probabilities[i, h * count + c] / total
                probabilities[i, h * count + c] = p
                for d in range(size):
                    y[i, h * size + d] += p * v[i, c * kv_heads * size + base + d]


@kernel
def _context_attention_backward_rows(
    dy: Array, inputs: ContextInputs, probabilities: Array, gradients: tuple[Array, ...], start: int, stop: int
) -> None:
    (q, k, v, heads, kv_heads, scale), (dq, dk, dv) = inputs, gradients
    size, count = q.shape[1] // heads, probabilities.shape[1] // heads
    for i in range(start, stop):
        for j in range(k.shape[1]):
            dk[i, j] = 0
            dv[i, j] = 0
        for h in range(heads):
            base = h // (heads // kv_heads) * size
            mean = q.dtype.type(0)
            for c in range(count):
                dot = q.dtype.type(0)
                for d in range(size):
                    dot += dy[i, h * size + d] * v[i, c * kv_heads * size + base + d]
                mean += probabilities[i, h * count + c] * dot
            for d in range(size):
                dq[i, h * size + d] = 0
            for c in range(count):
                p = probabilities[i, h * count + c]
                dot = q.dtype.type(0)
                for d in range(size):
                    dot += dy[i, h * size + d] * v[i, c * kv_heads * size + base + d]
                slope = p * (dot - mean) * scale
                for d in range(size):
                    place = c * kv_heads * size + base + d
                    dv[i, place] += p * dy[i, h * size + d]
                    dq[i, h * size + d] += slope * k[i, place]
                    dk[i, place] += slope * q[i, h * size + d]


def _inputs(q: Array, k: Array, v: Array, scale: float) -> ContextInputs:
    return ContextInputs(_flat(q), _flat(k), _flat(v), q.shape[1], k.shape[2], q.dtype.type(scale))


def _flat(x: Array) -> Array:
    return rows_of(x, x[0].size if len(x) else 1)


def context_attention_forward(q: Array, k: Array, v: Array, scale: float) -> tuple[Array, Array]:
    """Return the attended values (rows, H, D) and the probabilities (rows, H * L)."""
    inputs = _inputs(q, k, v, scale)
    y, probabilities = np.empty_like(inputs.q), np.empty((len(q), inputs.heads * k.shape[1]), q.dtype)
    over_rows(partial(_context_attention_rows, inputs, y, probabilities), len(q), 2 * k.shape[1] * y.shape[1])
    return y.reshape(q.shape), probabilities


def context_attention_backward(
    dy: Array, q: Array, k: Array, v: Array, probabilities: Array, scale: float
) -> tuple[Array, Array, Array]:
    """Return the gradients of q, k and v."""
    slopes, inputs = _flat(dy), _inputs(q, k, v, scale)
    dq, dk, dv = np.empty_like(inputs.q), np.empty_like(inputs.k), np.empty_like(inputs.v)
    loop = partial(_context_attention_backward_rows, slopes, inputs, probabilities, (dq, dk, dv))
    over_rows(loop, len(q), 5 * k.shape[1] * slopes.shape[1])
    return dq.reshape(q.shape), dk.reshape(k.shape), dv.reshape(v.shape)
