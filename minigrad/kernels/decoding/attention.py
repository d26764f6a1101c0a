"""Attention of one query of each text to the keys that are stored: read where they lie, never packed.

A training step multiplies a panel of queries with every tile of keys, which pays for packing them. Here there is one
query: each key is read once, for a dot product, and each value once, for a weighted sum.
"""

from __future__ import annotations

import math

import numpy as np

from minigrad.kernels.attention.chosen import keep_best
from minigrad.kernels.codegen.prefetch import prefetch
from minigrad.kernels.decoding.program import Heads, Share, Step, Texts
from minigrad.kernels.gemm.narrow import dot
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.typing import Array

_POSITIONS = 64  # of which keys or values are read together


@kernel
def store(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    """Store the key of each text, the source, and its value, the target, at its position; and means of whole blocks.

    If a step `adds`, the slow half of the key is stored at the next position (see `ops.key_shift`), if there is one.
    """
    block, half = int(heads.patterns[step.layer, 1]), heads.size // 2
    for text in range(share.number, memory.shape[0], share.threads):
        position, place = texts.lengths[text], texts.places[text]
        keys, values = texts.keys[step.layer, place], texts.values[step.layer, place]
        for g in range(heads.kv_heads):
            first, key, value = g * heads.size, keys[position, g], values[position, g]
            for d in range(heads.size):
                value[d] = memory[text, step.target + first + d]
                if not step.adds or d % half < half // 2:
                    key[d] = memory[text, step.source + first + d]
                elif position + 1 < keys.shape[0]:
                    keys[position + 1, g, d] = memory[text, step.source + first + d]
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
    scale, pattern, size = memory.dtype.type(1 / math.sqrt(heads.size)), heads.patterns[step.layer], heads.size
    window, block, top_k, least = int(pattern[0]), int(pattern[1]), int(pattern[2]), pattern[3]
    scores = np.empty((heads.num_heads, texts.keys.shape[2] + texts.far_keys.shape[2]), memory.dtype)
    numbers, unit = np.empty(scores.shape[1] if top_k else 0, np.int32), heads.num_heads if least >= 0 else 1
    units = memory.shape[0] * heads.num_heads // unit
    start, stop = units * share.number // share.threads * unit, units * (share.number + 1) // share.threads * unit
    for text in range(start // heads.num_heads, (stop + heads.num_heads - 1) // heads.num_heads):
        own = max(start - text * heads.num_heads, 0), min(stop - text * heads.num_heads, heads.num_heads)
        count, place, far = texts.lengths[text] + 1, texts.places[text], 0
        queries = memory[text, step.source : step.source + heads.num_heads * size]
        out = memory[text, step.target : step.target + heads.num_heads * size]
        keys, values = texts.keys[step.layer, place], texts.values[step.layer, place]
        first = max(count - window, 0) if window else 0
        if block:
            far, first = first // block, first // block * block
            if least >= 0 and relative_entropy(queries, keys[first:count], heads, scores[0]) <= least:
                far = 0
        seen = far + count - first
        score_heads(queries, keys[first:count], heads, own, scores[:, far:seen])
        score_heads(queries, texts.far_keys[step.layer, place, :far], heads, own, scores[:, :far])
        for head in range(own[0], own[1]):
            weights, result = scores[head, :seen], out[head * size : (head + 1) * size]
            for number in range(far):  # a mean stands for `block` keys: the logarithm of that is added to its score
                weights[number] += memory.dtype.type(math.log(block)) / scale
            result[:] = 0
            if 0 < top_k < seen:
                for number in range(seen):
                    numbers[number] = number
                weights = weights[: keep_best(numbers, weights, seen, top_k, 0).number]
            total = exponentials(weights, scale)
            for number in range(weights.size):
                weights[number] /= total
            if 0 < top_k < seen:
                for number in range(weights.size):
                    value = values[numbers[number] : numbers[number] + 1]
                    add_values(weights[number : number + 1], value, head // (heads.num_heads // heads.kv_heads), result)
        if not 0 < top_k < seen:
            add_values_of_heads(scores[:, :far], texts.far_values[step.layer, place, :far], heads, own, out)
            add_values_of_heads(scores[:, far:seen], values[first:count], heads, own, out)


@kernel
def exponentials(scores: Array, scale: float) -> float:
    """Replace scores by exponentials of the scaled ones, relative to the largest; return their sum."""
    largest, total = scores.dtype.type(-np.inf), scores.dtype.type(0)
    for number in range(scores.size):
        largest = max(largest, scores[number])
    for number in range(scores.size):
        scores[number] = exp((scores[number] - largest) * scale)
        total += scores[number]
    return total


@kernel
def relative_entropy(queries: Array, keys: Array, heads: Heads, scores: Array) -> float:
    """Return the mean entropy of the heads' attention to keys (n, kv_heads, size), as a share of its largest, ln n.

    With the weights w = exp(s - largest), the probabilities are w / sum(w), and the entropy is
    ln sum(w) - sum(w ln w) / sum(w). Of fewer than two keys it is 0.
    Shapes: queries (num_heads * size,), scores scratch memory.
    """
    if keys.shape[0] < 2:
        return 0.0
    scale, found = scores.dtype.type(1 / math.sqrt(heads.size)), 0.0
    for head in range(heads.num_heads):
        query, weights = queries[head * heads.size : (head + 1) * heads.size], scores[: keys.shape[0]]
        score(query, keys, head // (heads.num_heads // heads.kv_heads), weights)
        total, weighted = exponentials(weights, scale), 0.0
        for number in range(weights.size):
            weighted += weights[number] * math.log(weights[number]) if weights[number] > 0 else 0.0
        found += math.log(total) - weighted / total
    return found / (heads.num_heads * math.log(keys.shape[0]))


@kernel
def score_heads(queries: Array, keys: Array, heads: Heads, own: tuple[int, int], scores: Array) -> None:
    """Set the scores (num_heads, positions) of the heads own[0] to own[1] to the products of queries and keys.

    The keys of all heads of a position lie side by side. They are read in blocks of positions, each for all heads, so
    that memory is read from front to back, and once; the next block comes while this one is multiplied.
    """
    for first in range(0, keys.shape[0], _POSITIONS):
        last = min(first + _POSITIONS, keys.shape[0])
        prefetch(keys[last : min(last + _POSITIONS, keys.shape[0])])
        for head in range(own[0], own[1]):
            query, g = queries[head * heads.size : (head + 1) * heads.size], head // (heads.num_heads // heads.kv_heads)
            score(query, keys[first:last], g, scores[head, first:last])


@kernel
def add_values_of_heads(weights: Array, values: Array, heads: Heads, own: tuple[int, int], out: Array) -> None:
    """Add weighted sums of the values to the outputs (num_heads * size,) of the heads own[0] to own[1], likewise."""
    for first in range(0, values.shape[0], _POSITIONS):
        last = min(first + _POSITIONS, values.shape[0])
        prefetch(values[last : min(last + _POSITIONS, values.shape[0])])
        for head in range(own[0], own[1]):
            result, g = out[head * heads.size : (head + 1) * heads.size], head // (heads.num_heads // heads.kv_heads)
            add_values(weights[head, first:last], values[first:last], g, result)


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
    """Add the weighted sum of the values (positions, G, D) of head g to `out`, four values at a time."""
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
