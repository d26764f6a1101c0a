"""Attention of one query of each text to the keys that are stored: read where they lie, never packed.

A training step multiplies a panel of queries with every tile of keys, which pays for packing them. Here there is one
query: each key is read once, for a dot product, and each value once, for a weighted sum.
"""

from __future__ import annotations

import math

import numpy as np

from minigrad.kernels.attention.chosen import keep_best
from minigrad.kernels.decoding.program import Heads, Share, Step, Texts
from minigrad.kernels.gemm.narrow import dot
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.typing import Array


@kernel
def store(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    """Store the key of each text, the source, and its value, the target, at its position; and means of whole blocks."""
    block = int(heads.patterns[step.layer, 1])
    for text in range(share.number, memory.shape[0], share.threads):
        position, place = texts.lengths[text], texts.places[text]
        keys, values = texts.keys[step.layer, place], texts.values[step.layer, place]
        for g in range(heads.kv_heads):
            first, key, value = g * heads.size, keys[position, g], values[position, g]
            for d in range(heads.size):
                key[d], value[d] = memory[text, step.source + first + d], memory[text, step.target + first + d]
        if block and (position + 1) % block == 0:
            mean_of_block(keys, position // block, block, texts.far_keys[step.layer, place])
            mean_of_block(values, position // block, block, texts.far_values[step.layer, place])


@kernel
def mean_of_block(rows: Array, number: int, block: int, means: Array) -> None:
    """Store the mean of a block of rows: rows (positions, kv_heads, size), means (blocks, kv_heads, size)."""
    mean = means[number]
    mean[:] = 0
    for position in range(number * block, (number + 1) * block):
        for g in range(mean.shape[0]):
            row, line = rows[position, g], mean[g]
            for d in range(line.size):
                line[d] += row[d]
    mean *= rows.dtype.type(1 / block)


@kernel
def attend(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    """Set the target to the attention of the queries in the source, by heads, in the pattern of the layer.

    Threads share the heads of all texts; where the heads of a text decide together what they see, they share texts.
    """
    scale, pattern = memory.dtype.type(1 / math.sqrt(heads.size)), heads.patterns[step.layer]
    window, block, top_k, least = int(pattern[0]), int(pattern[1]), int(pattern[2]), pattern[3]
    scores = np.empty(texts.keys.shape[2] + texts.far_keys.shape[2], memory.dtype)
    numbers, far, unit = np.empty(scores.size if top_k else 0, np.int32), 0, heads.num_heads if least >= 0 else 1
    units = memory.shape[0] * heads.num_heads // unit
    for task in range(units * share.number // share.threads * unit, units * (share.number + 1) // share.threads * unit):
        text, head = task // heads.num_heads, task % heads.num_heads
        count, place = texts.lengths[text] + 1, texts.places[text]
        g, first = head // (heads.num_heads // heads.kv_heads), max(count - window, 0) if window else 0
        query = memory[text, step.source + head * heads.size : step.source + (head + 1) * heads.size]
        keys, values = texts.keys[step.layer, place], texts.values[step.layer, place]
        if block:
            if least < 0:
                far = first // block
            elif head == 0:
                queries = memory[text, step.source : step.source + heads.num_heads * heads.size]
                is_spread = relative_entropy(queries, keys[first // block * block : count], heads, scores) > least
                far = first // block if is_spread else 0
            first = first // block * block
        far_keys, far_values = texts.far_keys[step.layer, place, :far], texts.far_values[step.layer, place, :far]
        score_keys(query, far_keys, g, scale, scores)
        for number in range(far):
            scores[number] += memory.dtype.type(math.log(block))
        score_keys(query, keys[first:count], g, scale, scores[far:])
        seen = far + count - first
        if top_k:
            for number in range(seen):
                numbers[number] = number
            seen = keep_best(numbers, scores, seen, top_k, 0).number if seen > top_k else seen
        total = exponentials(scores[:seen])
        out = memory[text, step.target + head * heads.size : step.target + (head + 1) * heads.size]
        out[:] = 0
        for number in range(seen):
            position = first + number - far if top_k == 0 else numbers[number]
            value = far_values[number, g] if number < far else values[position, g]
            weight = scores[number] / total
            for d in range(out.size):
                out[d] += weight * value[d]


@kernel
def score_keys(query: Array, keys: Array, g: int, scale: float, scores: Array) -> None:
    """Set the first scores to the scaled products of a query with the keys (positions, kv_heads, size) of a head."""
    for position in range(keys.shape[0]):
        scores[position] = dot(query, keys[position, g], False) * scale


@kernel
def exponentials(scores: Array) -> float:
    """Replace scores by exponentials relative to the largest; return their sum."""
    largest, total = scores.dtype.type(-np.inf), scores.dtype.type(0)
    for number in range(scores.size):
        largest = max(largest, scores[number])
    for number in range(scores.size):
        scores[number] = exp(scores[number] - largest)
        total += scores[number]
    return total


@kernel
def relative_entropy(queries: Array, keys: Array, heads: Heads, scores: Array) -> float:
    """Return the mean entropy of the heads' attention to keys (n, kv_heads, size), as a share of its largest, ln n.

    With the weights w = exp(s - largest), the probabilities are w / sum(w), and the entropy is
    ln sum(w) - sum(w ln w) / sum(w). Shapes: queries (num_heads * size,), scores scratch memory.
    """
    scale, found = scores.dtype.type(1 / math.sqrt(heads.size)), 0.0
    for head in range(heads.num_heads):
        query = queries[head * heads.size : (head + 1) * heads.size]
        score_keys(query, keys, head // (heads.num_heads // heads.kv_heads), scale, scores)
        total, weighted = exponentials(scores[: keys.shape[0]]), 0.0
        for number in range(keys.shape[0]):
            weighted += scores[number] * math.log(scores[number]) if scores[number] > 0 else 0.0
        found += math.log(total) - weighted / total
    return found / (heads.num_heads * math.log(keys.shape[0])) if keys.shape[0] > 1 else 0.0
