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
    scale, zero = memory.dtype.type(1 / math.sqrt(heads.size)), memory.dtype.type(0)
    scores, group = np.empty(texts.keys.shape[2], memory.dtype), heads.num_heads // heads.kv_heads
    tasks = memory.shape[0] * heads.num_heads
    for task in range(tasks * share.number // share.threads, tasks * (share.number + 1) // share.threads):
        text, head = task // heads.num_heads, task % heads.num_heads
        count, g = texts.lengths[text] + 1, head // group
        query = memory[text, step.source + head * heads.size : step.source + (head + 1) * heads.size]
        out = memory[text, step.target + head * heads.size : step.target + (head + 1) * heads.size]
        keys, values = texts.keys[step.layer, texts.places[text]], texts.values[step.layer, texts.places[text]]
        largest, total = memory.dtype.type(-np.inf), zero
        for position in range(count):
            scores[position] = dot(query, keys[position, g], False) * scale
            largest = max(largest, scores[position])
        for position in range(count):
            scores[position] = exp(scores[position] - largest)
            total += scores[position]
        out[:] = 0
        for position in range(count):
            weight, value = scores[position] / total, values[position, g]
            for d in range(out.size):
                out[d] += weight * value[d]
