"""Attention of one query of each text to the keys that are stored: read where they lie, never packed.

A training step multiplies a panel of queries with every tile of keys, which pays for packing them. Here there is one
query: each key is read once, for a dot product, and each value once, for a weighted sum.
"""

from __future__ import annotations

import math

import numpy as np

from minigrad.kernels.decoding.program import Heads, Share, Step, Texts
from minigrad.kernels.gemm.narrow import dot
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.typing import Array


@kernel
def store(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    """Store the key of each text, the source, and its value, the target, at its position."""
    for text in range(share.number, memory.shape[0], share.threads):
        keys, values = texts.keys[step.layer, texts.places[text]], texts.values[step.layer, texts.places[text]]
        for g in range(heads.kv_heads):
            first, key, value = g * heads.size, keys[texts.lengths[text], g], values[texts.lengths[text], g]
            for d in range(heads.size):
                key[d], value[d] = memory[text, step.source + first + d], memory[text, step.target + first + d]


@kernel
def attend(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    """Set the target to the attention of the queries in the source, by heads, over the keys up to this position."""
    scale = memory.dtype.type(1 / math.sqrt(heads.size))
    scores, group = np.empty(texts.keys.shape[2], memory.dtype), heads.num_heads // heads.kv_heads
    tasks = memory.shape[0] * heads.num_heads
    for task in range(tasks * share.number // share.threads, tasks * (share.number + 1) // share.threads):
        text, head = task // heads.num_heads, task % heads.num_heads
        count, g = texts.lengths[text] + 1, head // group
        query = memory[text, step.source + head * heads.size : step.source + (head + 1) * heads.size]
        out = memory[text, step.target + head * heads.size : step.target + (head + 1) * heads.size]
        keys, values = texts.keys[step.layer, texts.places[text]], texts.values[step.layer, texts.places[text]]
        score(query, keys, g, scores[:count])
        largest, total = memory.dtype.type(-np.inf), memory.dtype.type(0)
        for position in range(count):
            largest = max(largest, scores[position])
        for position in range(count):
            scores[position] = exp((scores[position] - largest) * scale)
            total += scores[position]
        add_values(scores[:count], values, g, out)
        for d in range(out.size):
            out[d] /= total


@kernel
def score(query: Array, keys: Array, g: int, scores: Array) -> None:
    """Set the scores to the products of a query with the keys (positions, G, D) of head g, four keys at a time."""
    fours = scores.size // 4 * 4
    for first in range(0, fours, 4):
        a, b, c, d = keys[first, g], keys[first + 1, g], keys[first + 2, g], keys[first + 3, g]
        to_a, to_b, to_c, to_d = query.dtype.type(0), query.dtype.type(0), query.dtype.type(0), query.dtype.type(0)
        for j in range(query.size):
            to_a += query[j] * a[j]
            to_b += query[j] * b[j]
            to_c += query[j] * c[j]
            to_d += query[j] * d[j]
        scores[first], scores[first + 1], scores[first + 2], scores[first + 3] = to_a, to_b, to_c, to_d
    for position in range(fours, scores.size):
        scores[position] = dot(query, keys[position, g], False)


@kernel
def add_values(weights: Array, values: Array, g: int, out: Array) -> None:
    """Set `out` to the weighted sum of the values (positions, G, D) of head g, four values at a time."""
    out[:] = 0
    fours = weights.size // 4 * 4
    for first in range(0, fours, 4):
        a, b, c, d = values[first, g], values[first + 1, g], values[first + 2, g], values[first + 3, g]
        by_a, by_b, by_c, by_d = weights[first], weights[first + 1], weights[first + 2], weights[first + 3]
        for j in range(out.size):
            out[j] += by_a * a[j] + by_b * b[j] + by_c * c[j] + by_d * d[j]
    for position in range(fours, weights.size):
        weight, value = weights[position], values[position, g]
        for j in range(out.size):
            out[j] += weight * value[j]
