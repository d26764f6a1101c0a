"""Attention of one query of each text to the keys that are stored: floats are read where they lie, never packed.

A training step multiplies a panel of queries with every tile of keys, which pays for packing them. Here there is one
query: each key is read once, for a dot product, and each value once, for a weighted sum. Keys and values in fewer bits
are widened in registers, for all heads that share them (`minigrad.kernels.codegen.kept_rows`), or, where heads are too
narrow for that, part by part into memory that stays in the processor's cache (`minigrad.kernels.decoding.kept`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from minigrad.kernels.attention.chosen import keep_best
from minigrad.kernels.codegen.kept_rows import HEADS, ROWS, Rows, add_rows, score_rows
from minigrad.kernels.codegen.line_tile import FULL
from minigrad.kernels.codegen.prefetch import prefetch
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.decoding.kept import Kept, has_second_scale, keep, row_bytes, widened
from minigrad.kernels.decoding.program import Heads, Pattern, Share, Step, Texts
from minigrad.kernels.gemm.narrow import dot
from minigrad.kernels.jit import allocating, kernel, pasted
from minigrad.kernels.rowwise.exponential import exp
from minigrad.typing import Array

PARTS = 16
"""The most parts into which the attention of a text is divided, and so the most threads that share it."""
_LEAST = 32  # keys of a part
_POSITIONS = 64  # whose keys or values are read together


class StoredKeys(NamedTuple):
    """Keys and values: (positions, kv_heads, size) each."""

    keys: Array
    values: Array


class KeptSpan(NamedTuple):
    """The keys or the values of a text from position `start` to `stop`, or means of them; `text` counts the texts of
    all layers."""

    kept: Kept
    text: int
    start: int
    stop: int


@pasted
def store(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    """Store the key of each text, the source, and its value, the target, at its position; and means of whole blocks.

    If a step `adds`, the slow half of the key is stored at the next position (see `ops.key_shift`), if there is one.
    """
    block = pattern_of(heads, step.layer).block
    for text in range(share.number, memory.shape[0], share.threads):
        position, place = texts.lengths[text], step.layer * texts.keys.texts + texts.places[text]
        token = place * texts.keys.positions + position
        has_next = position + 1 < texts.keys.positions
        slow = 0 if not step.adds else heads.kv_heads if has_next else -1
        for source, rows, ahead in ((step.source, texts.keys, slow), (step.target, texts.values, 0)):
            for g in range(heads.kv_heads):
                first, row = source + g * heads.size, token * heads.kv_heads + g
                keep(memory[text, first : first + heads.size], rows, row, row + ahead if ahead >= 0 else -1)
        if block and (position + 1) % block == 0:
            for rows, means in ((texts.keys, texts.far_keys), (texts.values, texts.far_values)):
                keep_mean_of_block(rows, place, position // block, block, means, memory[text])


@pasted
def keep_mean_of_block(rows: Kept, text: int, number: int, block: int, means: Kept, like: Array) -> None:
    """Keep the mean of a block of a text's rows; `text` counts the texts of all layers."""
    own = widened(rows, text, number * block, (number + 1) * block, (0, rows.heads), like)
    mean = np.zeros((rows.heads, rows.size), like.dtype)
    for position in range(block):
        for g in range(rows.heads):
            for d in range(rows.size):
                mean[g, d] += own[position, g, d]
    mean *= like.dtype.type(1 / block)
    for g in range(rows.heads):
        row = (text * means.positions + number) * means.heads + g
        keep(mean[g], means, row, row)


@kernel
def pattern_of(heads: Heads, layer: int) -> Pattern:
    """Return the pattern of a layer."""
    row = heads.patterns[layer]
    return Pattern(int(row[0]), int(row[1]), int(row[2]), row[3])


@kernel
def visible_range(count: int, pattern: Pattern, num_heads: int) -> tuple[int, int, int]:
    """Return how many means of blocks the query of a text of `count` tokens sees, and the first of its single keys.

    The third number is that of the parts into which its attention is divided. It depends on the text alone, so results
    do not depend on the threads.
    """
    means, first = 0, max(count - pattern.window, 0) if pattern.window else 0
    if pattern.block:
        means, first = first // pattern.block, first // pattern.block * pattern.block
    parts = num_heads if 0 < pattern.top_k < count else (means + count - first + _LEAST - 1) // _LEAST
    return means, first, 1 if pattern.entropy >= 0 else min(PARTS, parts)


@pasted
def attend(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    """Compute the parts of the attention of the queries in the source, by heads, in the pattern of the layer.

    A part is the attention of all heads to a range of the keys; `join` makes one of all parts. So threads, which share
    the parts, read different keys, and equally many (Dao et al. 2023, "Flash-Decoding"). Where the best keys are chosen
    among all, a part is the attention of some heads; and heads that decide together what they see are one part.
    """
    width = heads.num_heads * heads.size
    size = width + 2 * heads.num_heads
    for text in range(memory.shape[0]):
        _, _, parts = visible_range(texts.lengths[text] + 1, pattern_of(heads, step.layer), heads.num_heads)
        number = (share.number + text) % share.threads  # texts of one part are not all computed by one thread
        queries = memory[text, step.source : step.source + width]
        for part in range(parts * number // share.threads, parts * (number + 1) // share.threads):
            out = memory[text, step.target + part * size : step.target + (part + 1) * size]
            attend_in_part(queries, part, step.layer, heads, texts, text, out)


@pasted
def attend_in_part(queries: Array, part: int, layer: int, heads: Heads, texts: Texts, text: int, out: Array) -> None:
    """Compute one part of the attention of a text's queries (num_heads * size,).

    `out` is set to the sums of values (num_heads * size,), weighted by the exponentials of scores relative to the
    largest; then these largest scores (num_heads,), and the sums of the exponentials (num_heads,).
    """
    pattern, count, own = pattern_of(heads, layer), texts.lengths[text] + 1, (0, heads.num_heads)
    place = layer * texts.keys.texts + texts.places[text]
    means, first, parts = visible_range(count, pattern, heads.num_heads)
    if pattern.entropy >= 0:
        newest = widened(texts.keys, place, first, count, (0, heads.kv_heads), out)
        if relative_entropy(queries, newest, heads) <= pattern.entropy:
            means = 0
    seen = means + count - first
    start, stop = seen * part // parts, seen * (part + 1) // parts  # of the means, and then the single keys
    if takes_best := 0 < pattern.top_k < count:
        own, start, stop = (heads.num_heads * part // parts, heads.num_heads * (part + 1) // parts), 0, count
    near, offset = min(max(means, start), stop), first - means
    group = heads.num_heads // heads.kv_heads
    read = own[0] // group, (own[1] + group - 1) // group
    out[:] = 0
    out[queries.size : queries.size + heads.num_heads] = -np.inf  # of no keys: such a part has no weight
    if takes_best:
        single = StoredKeys(
            widened(texts.keys, place, near + offset, stop + offset, read, out),
            widened(texts.values, place, near + offset, stop + offset, read, out),
        )
        attend_to_best(queries, single, pattern.top_k, heads, own, out)
        return
    keys = KeptSpan(texts.far_keys, place, start, near), KeptSpan(texts.keys, place, near + offset, stop + offset)
    values = KeptSpan(texts.far_values, place, start, near), KeptSpan(texts.values, place, near + offset, stop + offset)
    attend_to_means_and_keys(queries, keys, values, max(pattern.block, 1), heads, out)


@pasted
def attend_to_means_and_keys(
    queries: Array,
    keys: tuple[KeptSpan, KeptSpan],
    values: tuple[KeptSpan, KeptSpan],
    block: int,
    heads: Heads,
    out: Array,
) -> None:
    """Attend to means of blocks of keys, which only some patterns have, and to each of the keys after them.

    A mean stands for `block` keys: the logarithm of `block` is added to its scaled score.
    """
    far = keys[0].stop - keys[0].start
    count = far + keys[1].stop - keys[1].start
    weights = np.empty((heads.num_heads, count + ROWS), out.dtype)  # ROWS scores are written at a time
    slow = has_second_scale(heads.size)
    for span, following, column in ((keys[0], values[0], 0), (keys[1], values[1], far)):
        score_span(queries, span, following, heads, slow, weights, column)
    added = out.dtype.type(math.log(block)) / out.dtype.type(1 / math.sqrt(heads.size))
    for head in range(heads.num_heads):
        for column in range(far):
            weights[head, column] += added
    weigh(weights, count, heads, out)
    for span, before, column in ((values[0], keys[0], 0), (values[1], keys[1], far)):
        following = KeptSpan(before.kept, before.text, before.stop, end_after(before))  # keys of the next part
        add_span(weights, column, span, following, heads, slow, out)


@kernel
def is_widened_in_registers(kept: Kept, like: Array) -> bool:
    """Return whether rows are multiplied as they are kept, for queries of the type of `like`."""
    return kept.format != FULL and like.itemsize == 4 and kept.size % SIDE == 0


@kernel
def rows_of_head(span: KeptSpan, g: int, memory: int) -> Rows:
    """Return the rows of a key/value head in a span; `memory` is the address of all rows that are kept."""
    kept, size = span.kept, row_bytes(span.kept)
    first = (span.text * kept.positions + span.start) * kept.heads + g
    return Rows(kept.format, memory + first * size, kept.heads * size, span.stop - span.start, kept.size)


@kernel
def end_after(span: KeptSpan) -> int:
    """Return the end of the span after this one, which is as long, or shorter at the end of the text's place."""
    return min(2 * span.stop - span.start, span.kept.positions)


@kernel
def prefetch_part(span: KeptSpan, number: int, count: int) -> None:
    """Ask for one of `count` parts of the rows of a span in bfloat16 or int8: memory that is read soon."""
    size = row_bytes(span.kept) * span.kept.heads
    first, length = (span.text * span.kept.positions + span.start) * size, (span.stop - span.start) * size
    prefetch(span.kept.memory[first + length * number // count : first + length * (number + 1) // count])


@kernel
def heads_together(head: int, last: int) -> int:
    """Return how many heads, from `head` on and before `last`, are multiplied with the same rows at once."""
    return HEADS if last - head >= HEADS else 1


@allocating
def score_span(
    queries: Array, span: KeptSpan, following: KeptSpan, heads: Heads, slow: Array, scores: Array, column: int
) -> None:
    """Set the scores (num_heads, columns) to the products of queries and the keys of a span, the first in `column`.

    Up to ROWS - 1 columns after the last one are written too. The next span is fetched meanwhile. `slow` is
    that of `has_second_scale`.
    """
    if not is_widened_in_registers(span.kept, scores):
        keys = widened(span.kept, span.text, span.start, span.stop, (0, heads.kv_heads), scores.reshape(-1))
        score_heads(queries, keys, heads, scores, column)
        return
    group, tiles = heads.num_heads // heads.kv_heads, (span.stop - span.start + ROWS - 1) // ROWS
    for g in range(heads.kv_heads):
        rows, head, last = rows_of_head(span, g, span.kept.memory.ctypes.data), g * group, (g + 1) * group
        while head < last:
            count, those = heads_together(head, last), queries[head * heads.size :]
            for tile in range(tiles):
                if head == g * group:
                    prefetch_part(following, g * tiles + tile, heads.kv_heads * tiles)
                first = tile * ROWS
                score_rows(rows, first, those, count, slow, scores[head:], column + first)
            head += count


@allocating
def add_span(
    weights: Array, column: int, span: KeptSpan, following: KeptSpan, heads: Heads, slow: Array, out: Array
) -> None:
    """Add weighted sums of the values of a span to the outputs (num_heads * size,) of all heads.

    The weight of the first value is in `column`. The rest is as in `score_span`.
    """
    if not is_widened_in_registers(span.kept, weights):
        values = widened(span.kept, span.text, span.start, span.stop, (0, heads.kv_heads), weights.reshape(-1))
        add_values_of_heads(weights, column, values, heads, out)
        return
    group = heads.num_heads // heads.kv_heads
    for g in range(heads.kv_heads if span.stop > span.start else 0):
        prefetch_part(following, g, heads.kv_heads)
        rows, head, last = rows_of_head(span, g, span.kept.memory.ctypes.data), g * group, (g + 1) * group
        while head < last:
            count = heads_together(head, last)
            add_rows(rows, weights[head:], column, count, slow, out, head * heads.size)
            head += count


@pasted
def attend_to_best(
    queries: Array, stored: StoredKeys, top_k: int, heads: Heads, own: tuple[int, int], out: Array
) -> None:
    """Let each of the heads own[0] to own[1] attend to the `top_k` keys of the highest scores: sparse attention."""
    width, count, scale = queries.size, stored.keys.shape[0], out.dtype.type(1 / math.sqrt(heads.size))
    for head in range(own[0], own[1]):
        g, place = head // (heads.num_heads // heads.kv_heads), head * heads.size
        scores, numbers = np.empty(count, out.dtype), np.arange(count, dtype=np.int32)
        score(queries[place : place + heads.size], stored.keys, g, scores)
        weights, result = scores[: keep_best(numbers, scores, count, top_k)], out[place : place + heads.size]
        out[width + head], out[width + heads.num_heads + head] = exponentials(weights, scale)
        for index in range(weights.size):
            value = stored.values[numbers[index] : numbers[index] + 1]
            add_values(weights[index : index + 1], value, g, result)


@kernel
def weigh(scores: Array, count: int, heads: Heads, out: Array) -> None:
    """Replace the first `count` scores of each head by exponentials; write the largest score, and the sum, to `out`.

    Shapes: scores (num_heads, count or more).
    """
    width, scale = heads.num_heads * heads.size, scores.dtype.type(1 / math.sqrt(heads.size))
    for head in range(heads.num_heads):
        out[width + head], out[width + heads.num_heads + head] = exponentials(scores[head, :count], scale)


@kernel
def join(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    """Set the target to the attention of all heads, the mean of its parts in the source (see `attend`).

    Exponentials relative to the largest score of a part become relative to that of all parts. Threads share the heads
    of all texts.
    """
    scale, count = memory.dtype.type(1 / math.sqrt(heads.size)), heads.num_heads
    width, units = count * heads.size, memory.shape[0] * count
    for unit in range(units * share.number // share.threads, units * (share.number + 1) // share.threads):
        text, head = unit // count, unit % count
        _, _, parts = visible_range(texts.lengths[text] + 1, pattern_of(heads, step.layer), count)
        source, size = memory[text, step.source :], width + 2 * count
        out = memory[text, step.target + head * heads.size : step.target + (head + 1) * heads.size]
        largest, total = source[width + head], memory.dtype.type(0)
        for part in range(1, parts):
            largest = max(largest, source[part * size + width + head])
        out[:] = 0
        for part in range(parts):
            factor = exp((source[part * size + width + head] - largest) * scale)
            total += factor * source[part * size + width + count + head]
            sums = source[part * size + head * heads.size : part * size + (head + 1) * heads.size]
            for j in range(out.size):
                out[j] += factor * sums[j]
        for j in range(out.size):
            out[j] /= total


@kernel
def exponentials(scores: Array, scale: float) -> tuple[float, float]:
    """Replace scores by exponentials of the scaled ones, relative to the largest; return the largest, and their sum."""
    largest, total = scores.dtype.type(-np.inf), scores.dtype.type(0)
    for number in range(scores.size):
        largest = max(largest, scores[number])
    for number in range(scores.size):
        scores[number] = exp((scores[number] - largest) * scale)
        total += scores[number]
    return largest, total


@allocating
def relative_entropy(queries: Array, keys: Array, heads: Heads) -> float:
    """Return the mean entropy of the heads' attention to keys (n, kv_heads, size), as a share of its largest, ln n.

    With the weights w = exp(s - largest), the probabilities are w / sum(w), and the entropy is
    ln sum(w) - sum(w ln w) / sum(w). Of fewer than two keys it is 0.
    Shapes: queries (num_heads * size,).
    """
    if keys.shape[0] < 2:
        return 0.0
    scale, found, weights = queries.dtype.type(1 / math.sqrt(heads.size)), 0.0, np.empty(keys.shape[0], queries.dtype)
    for head in range(heads.num_heads):
        query = queries[head * heads.size : (head + 1) * heads.size]
        score(query, keys, head // (heads.num_heads // heads.kv_heads), weights)
        (_, total), weighted = exponentials(weights, scale), 0.0
        for number in range(weights.size):
            weighted += weights[number] * math.log(weights[number]) if weights[number] > 0 else 0.0
        found += math.log(total) - weighted / total
    return min(found / (heads.num_heads * math.log(keys.shape[0])), 1.0)


@kernel
def score_heads(queries: Array, keys: Array, heads: Heads, scores: Array, column: int) -> None:
    """Set the scores (num_heads, columns) to the products of queries and keys, the first key's in `column`.

    The keys of all heads of a position lie side by side. They are read in blocks of positions, each for all heads, so
    that memory is read from front to back, and once; the next block is fetched while this one is multiplied.
    """
    for first in range(0, keys.shape[0], _POSITIONS):
        last = min(first + _POSITIONS, keys.shape[0])
        prefetch(keys[last : min(last + _POSITIONS, keys.shape[0])])
        for head in range(heads.num_heads):
            query, g = queries[head * heads.size : (head + 1) * heads.size], head // (heads.num_heads // heads.kv_heads)
            score(query, keys[first:last], g, scores[head, column + first : column + last])


@kernel
def add_values_of_heads(weights: Array, column: int, values: Array, heads: Heads, out: Array) -> None:
    """Add weighted sums of the values to the outputs (num_heads * size,) of all heads, in the same order.

    The weight of the first value is in `column`.
    """
    for first in range(0, values.shape[0], _POSITIONS):
        last = min(first + _POSITIONS, values.shape[0])
        prefetch(values[last : min(last + _POSITIONS, values.shape[0])])
        for head in range(heads.num_heads):
            result, g = out[head * heads.size : (head + 1) * heads.size], head // (heads.num_heads // heads.kv_heads)
            add_values(weights[head, column + first : column + last], values[first:last], g, result)


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
