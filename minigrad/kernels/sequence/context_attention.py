"""Attention in which every row has a few keys of its own."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
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
    size = q.shape[1] // heads
    count = shares.shape[1] // heads
    for i in range(start, stop):
        for h in range(heads):
            base = h // (heads // kv_heads) * size
            top = q.dtype.type(-np.inf)
            for c in range(count):
                score = q.dtype.type(0)
                for d in range(size):
                    score += q[i, h * size + d] * k[i, c * kv_heads * size + base + d]
                score *= scale
                shares[i, h * count + c] = score
                top = max(top, score)
            total = q.dtype.type(0)
            for c in range(count):
                e = exp(shares[i, h * count + c] - top)
                shares[i, h * count + c] = e
                total += e
            for d in range(size):
                y[i, h * size + d] = 0
            for c in range(count):
                p = shares[i, h * count + c] / total
                shares[i, h * count + c] = p
                for d in range(size):
                    y[i, h * size + d] += p * v[i, c * kv_heads * size + base + d]


@kernel
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
    size = q.shape[1] // heads
    count = shares.shape[1] // heads
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
                mean += shares[i, h * count + c] * dot
            for d in range(size):
                dq[i, h * size + d] = 0
            for c in range(count):
                p = shares[i, h * count + c]
                dot = q.dtype.type(0)
                for d in range(size):
                    dot += dy[i, h * size + d] * v[i, c * kv_heads * size + base + d]
                slope = p * (dot - mean) * scale
                for d in range(size):
                    place = c * kv_heads * size + base + d
                    dv[i, place] += p * dy[i, h * size + d]
                    dq[i, h * size + d] += slope * k[i, place]
                    dk[i, place] += slope * q[i, h * size + d]


def context_attention_forward(q: Array, k: Array, v: Array, scale: float) -> tuple[Array, Array]:
    """Return the mixtures (rows, H, D) and the probabilities (rows, H * L)."""
    rows, keys, values = (rows_of(each, each[0].size if len(each) else 1) for each in (q, k, v))
    heads, kv_heads, factor = q.shape[1], k.shape[2], q.dtype.type(scale)
    y, shares = np.empty_like(rows), np.empty((len(q), heads * k.shape[1]), q.dtype)
    over_rows(
        lambda start, stop: _context_attention_rows(
            rows, keys, values, y, shares, heads, kv_heads, factor, start, stop
        ),
        len(q),
        2 * k.shape[1] * rows.shape[1],
    )
    return y.reshape(q.shape), shares


def context_attention_backward(
    dy: Array, q: Array, k: Array, v: Array, shares: Array, scale: float
) -> tuple[Array, Array, Array]:
    """Return the gradients by q, k and v."""
    slopes, rows, keys, values = (rows_of(each, each[0].size if len(each) else 1) for each in (dy, q, k, v))
    heads, kv_heads, factor = q.shape[1], k.shape[2], q.dtype.type(scale)
    dq, dk, dv = np.empty_like(rows), np.empty_like(keys), np.empty_like(values)
    over_rows(
        lambda start, stop: _context_attention_backward_rows(
            slopes, rows, keys, values, shares, dq, dk, dv, heads, kv_heads, factor, start, stop
        ),
        len(q),
        5 * k.shape[1] * rows.shape[1],
    )
    return dq.reshape(q.shape), dk.reshape(k.shape), dv.reshape(v.shape)
