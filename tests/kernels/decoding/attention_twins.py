"""Twins of attention to stored keys: what a query sees in each pattern, and the weighted sum of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.codegen.kept_rows import ROWS
from minigrad.kernels.codegen.line_tile import FULL
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.decoding import program as codes
from minigrad.kernels.decoding.attention import PARTS, KeptSpan, StoredKeys
from minigrad.kernels.decoding.kept import FORMATS, Kept
from minigrad.kernels.decoding.program import Heads, Pattern, Share, Step, Texts
from tests.kernels.decoding.drawn_steps import BLOCK, JOINED, TARGET, drawn_heads, step_arguments, texts_of_share
from tests.kernels.decoding.kept_twins import drawn_kept, floats_of, row_bytes, slow_half, write
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers


def _store(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    block = Pattern(*heads.patterns[step.layer]).block
    for text in texts_of_share(memory, share):
        place, stop = step.layer * texts.keys.texts + int(texts.places[text]), int(texts.lengths[text]) + 1
        both = (step.source, texts.keys, texts.far_keys), (step.target, texts.values, texts.far_values)
        for start, stored, means in both:
            new = memory[text, start : start + step.outputs].reshape(heads.kv_heads, heads.size)
            token = place * stored.positions + stop - 1
            after = token + 1 if stop < stored.positions else -1
            write(stored, new, token, after if step.adds and stored is texts.keys else token)
            if block and stop % block == 0:
                token = place * means.positions + int(stop // block) - 1
                write(means, floats_of(stored, memory.dtype)[place, stop - BLOCK : stop].mean(0), token, token)


def _entropies(queries: Array, keys: Array, heads: Heads) -> Array:
    """Return the entropy of the attention of each head, as a share of the largest."""
    keys = keys.repeat(heads.num_heads // heads.kv_heads, axis=1)
    scores = np.einsum("hd,uhd->hu", queries.reshape(heads.num_heads, heads.size), keys) / math.sqrt(heads.size)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return -(p * np.log(p)).sum(axis=1) / math.log(max(len(keys), 2))


def _seen_by(query: Array, keys: Array, values: Array, pattern: Pattern, is_spread: bool) -> tuple[Array, Array]:
    """Return the scores (n,) and the values (n, size) of the keys that a head sees: keys and values (count, size)."""
    first = max(len(keys) - int(pattern.window), 0) if pattern.window else 0
    scores = keys @ query / math.sqrt(len(query))
    if 0 < pattern.top_k < len(keys):
        chosen = np.argsort(-scores, kind="stable")[: int(pattern.top_k)]
        return scores[chosen], values[chosen]
    if not pattern.block:
        return scores[first:], values[first:]
    first = first // BLOCK * BLOCK
    means, mean_values = (x[: first if is_spread else 0].reshape(-1, BLOCK, len(query)).mean(1) for x in (keys, values))
    far = means @ query / math.sqrt(len(query)) + math.log(BLOCK)
    return np.concatenate([far, scores[first:]]), np.concatenate([mean_values, values[first:]])


def _pattern_of(heads: Heads, layer: int) -> Pattern:
    *numbers_of_keys, entropy = heads.patterns[layer]
    return Pattern(*map(int, numbers_of_keys), float(entropy))


@st.composite
def _layer_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    return [draw(drawn_heads(dtype)), 0]


def _visible_range(count: int, pattern: Pattern, num_heads: int) -> tuple[int, int, int]:
    window, block, top_k, entropy = pattern
    first = int(max(count - window, 0)) if window else 0
    means = first // int(block) if block else 0
    first = means * int(block) if block else first
    if entropy >= 0:
        return means, first, 1
    return means, first, min(PARTS, num_heads if 0 < top_k < count else math.ceil((means + count - first) / 32))


def _attend_in_part(queries: Array, part: int, layer: int, heads: Heads, texts: Texts, text: int, out: Array) -> None:
    pattern, count, all_heads = _pattern_of(heads, layer), int(texts.lengths[text]) + 1, heads.num_heads
    (_, first, parts), place = _visible_range(count, pattern, all_heads), layer * texts.keys.texts + texts.places[text]
    keys, values = (floats_of(rows, out.dtype)[place, :count] for rows in (texts.keys, texts.values))
    is_spread = pattern.entropy < 0 or _entropies(queries, keys[first:], heads).mean() > pattern.entropy
    sums, (largest, totals) = out[: queries.size].reshape(all_heads, -1), out[queries.size :].reshape(2, -1)
    sums[:], largest[:], totals[:] = 0, -np.inf, 0
    for head, query in enumerate(queries.reshape(all_heads, -1)):
        g = head * heads.kv_heads // all_heads
        scores, those = _seen_by(query, keys[:, g], values[:, g], pattern, is_spread)
        if 0 < pattern.top_k < count:
            if not all_heads * part // parts <= head < all_heads * (part + 1) // parts:
                continue
        else:
            span = slice(len(scores) * part // parts, len(scores) * (part + 1) // parts)
            scores, those = scores[span], those[span]
        p = np.exp(scores - scores.max())
        sums[head], largest[head], totals[head] = p @ those, scores.max() * math.sqrt(heads.size), p.sum()


def attend(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    width = heads.num_heads * heads.size
    size = width + 2 * heads.num_heads
    for text in range(len(memory)):
        _, _, parts = _visible_range(int(texts.lengths[text]) + 1, _pattern_of(heads, step.layer), heads.num_heads)
        number, queries = (share.number + text) % share.threads, memory[text, step.source : step.source + width]
        for part in range(parts * number // share.threads, parts * (number + 1) // share.threads):
            out = memory[text, step.target + part * size : step.target + (part + 1) * size]
            _attend_in_part(queries, part, step.layer, heads, texts, text, out)


def join(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    width, count = heads.num_heads * heads.size, heads.num_heads
    units = len(memory) * count
    for unit in range(units * share.number // share.threads, units * (share.number + 1) // share.threads):
        text, head = divmod(unit, count)
        _, _, parts = _visible_range(int(texts.lengths[text]) + 1, _pattern_of(heads, step.layer), count)
        rows = memory[text, step.source :][: parts * (width + 2 * count)].reshape(parts, -1)
        logarithms = rows[:, width + head] / math.sqrt(heads.size)
        factors = np.exp(logarithms - logarithms.max())
        sums = factors @ rows[:, head * heads.size : (head + 1) * heads.size]
        out = memory[text, step.target + head * heads.size :][: heads.size]
        out[:] = sums / (factors @ rows[:, width + count + head])


_attend_arguments = step_arguments((codes.ATTEND,), "heads", "texts", "share")


@st.composite
def _join_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    memory, step, heads, texts, share = draw(_attend_arguments(dtype))
    attend(memory, step, heads, texts, Share(0, 1))
    return [memory, step._replace(code=codes.JOIN, source=TARGET, target=JOINED), heads, texts, share]


@st.composite
def _part_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    memory, step, heads, texts, _ = draw(_attend_arguments(dtype).filter(lambda arguments: len(arguments[0]) > 0))
    width, text = heads.num_heads * heads.size, draw(st.integers(0, len(memory) - 1))
    _, _, parts = _visible_range(int(texts.lengths[text]) + 1, _pattern_of(heads, step.layer), heads.num_heads)
    queries, out = memory[text, :width].copy(), np.full(width + 2 * heads.num_heads, UNTOUCHED, dtype)
    return [queries, draw(st.integers(0, parts - 1)), step.layer, heads, texts, text, out]


@st.composite
def _pattern_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    heads = draw(drawn_heads(dtype))
    return [draw(st.integers(1, 1_000)), _pattern_of(heads, 0), heads.num_heads]


@st.composite
def _block_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    rows, means = (drawn_kept(draw, numbers(draw, dtype, 1, 2, count, 2, 6)) for count in (4, 2))
    return [rows, draw(st.integers(0, 1)), draw(st.integers(0, 1)), BLOCK, means, np.zeros(1, dtype)]


def _keep_mean_of_block(rows: Kept, text: int, number: int, block: int, means: Kept, like: Array) -> None:
    in_block = floats_of(rows, like.dtype)[text, number * block : (number + 1) * block]
    mean = in_block.sum(0) * like.dtype.type(1 / block)  # in int8, the last bit of a quotient can decide how it rounds
    write(means, mean, text * means.positions + number, text * means.positions + number)


@st.composite
def _exponential_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    return [numbers(draw, dtype, draw(st.integers(1, 40))), dtype(0.3)]


def _exponentials(scores: Array, scale: float) -> tuple[Any, Any]:
    largest, weights = scores.max(), np.exp((scores.astype(np.float64) - scores.max()) * scale)
    scores[:] = weights
    return largest, weights.sum()


@st.composite
def _entropy_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    none, keys = np.zeros((0, 0), dtype), numbers(draw, dtype, draw(st.sampled_from([0, 1, 4, 9])), 2, 3)
    heads = Heads(4, 2, 3, np.zeros((1, 4)), none, none, False)
    return [numbers(draw, dtype, 12), keys, heads]


def _relative_entropy(queries: Array, keys: Array, heads: Heads) -> Any:
    return _entropies(queries.astype(np.float64), keys, heads).mean() if len(keys) > 1 else 0.0


@st.composite
def _keys_of_a_head(draw: DrawFn, dtype: Any) -> tuple[Array, int]:
    heads, size, count = draw(st.integers(1, 3)), draw(st.sampled_from([1, 8, 32, 35])), draw(st.integers(0, 11))
    return numbers(draw, dtype, count, heads, size), draw(st.integers(0, heads - 1))


@st.composite
def _scored(draw: DrawFn, dtype: Any) -> Arguments:
    keys, g = draw(_keys_of_a_head(dtype))
    return [numbers(draw, dtype, keys.shape[2]), keys, g, np.full(len(keys), UNTOUCHED, dtype)]


def _score(query: Array, keys: Array, g: int, scores: Array) -> None:
    scores[:] = keys[:, g] @ query


@st.composite
def _weighted(draw: DrawFn, dtype: Any) -> Arguments:
    values, g = draw(_keys_of_a_head(dtype))
    return [numbers(draw, dtype, len(values)), values, g, numbers(draw, dtype, values.shape[2])]


def _add_values(weights: Array, values: Array, g: int, out: Array) -> None:
    out += weights @ values[:, g]


@st.composite
def _keys_of_heads(draw: DrawFn, dtype: Any) -> tuple[Array, Heads]:
    heads, none = draw(st.sampled_from([(1, 1), (3, 1), (6, 2)])), np.zeros((0, 0), dtype)
    keys = numbers(draw, dtype, draw(st.sampled_from([0, 1, 70, 130])), heads[1], 8)
    return keys, Heads(*heads, 8, np.zeros((1, 4)), none, none, False)


@st.composite
def _scored_heads(draw: DrawFn, dtype: Any) -> Arguments:
    (keys, heads), column = draw(_keys_of_heads(dtype)), draw(st.integers(0, 2))
    scores = np.full((heads.num_heads, column + len(keys) + 1), UNTOUCHED, dtype)
    return [numbers(draw, dtype, heads.num_heads * heads.size), keys, heads, scores, column]


def _score_heads(queries: Array, keys: Array, heads: Heads, scores: Array, column: int) -> None:
    of_head = keys.repeat(heads.num_heads // heads.kv_heads, axis=1)
    scores[:, column : column + len(keys)] = np.einsum("hd,uhd->hu", queries.reshape(-1, heads.size), of_head)


@st.composite
def _weighted_heads(draw: DrawFn, dtype: Any) -> Arguments:
    (values, heads), column = draw(_keys_of_heads(dtype)), draw(st.integers(0, 2))
    weights = numbers(draw, dtype, heads.num_heads, column + len(values) + 1)
    return [weights, column, values, heads, numbers(draw, dtype, heads.num_heads * heads.size)]


def _add_values_of_heads(weights: Array, column: int, values: Array, heads: Heads, out: Array) -> None:
    of_head = values.repeat(heads.num_heads // heads.kv_heads, axis=1)
    out += np.einsum("hu,uhd->hd", weights[:, column : column + len(values)], of_head).reshape(-1)


def _zeros_of(heads: Heads, dtype: Any) -> Array:
    return np.zeros(heads.num_heads * (heads.size + 2), dtype)


@st.composite
def _weighed(draw: DrawFn, dtype: Any) -> Arguments:
    keys, heads = draw(_keys_of_heads(dtype))
    scores, count = numbers(draw, dtype, heads.num_heads, len(keys) + 3), draw(st.integers(1, len(keys) + 3))
    return [scores, count, heads, _zeros_of(heads, dtype)]


def _weigh(scores: Array, count: int, heads: Heads, out: Array) -> None:
    ends = out[heads.num_heads * heads.size :].reshape(2, -1)
    for head, row in enumerate(scores):
        ends[:, head] = _exponentials(row[:count], 1 / math.sqrt(heads.size))


@st.composite
def _attended_keys(draw: DrawFn, dtype: Any) -> Arguments:
    keys, heads = draw(_keys_of_heads(dtype).filter(lambda drawn: len(drawn[0]) > 0))
    queries, values = numbers(draw, dtype, heads.num_heads * heads.size), numbers(draw, dtype, *keys.shape)
    return [queries, StoredKeys(keys, values), heads, _zeros_of(heads, dtype)]


def _span(
    draw: DrawFn, dtype: Any, heads: Heads, counts: tuple[int, ...], formats: tuple[str, ...] = FORMATS
) -> KeptSpan:
    """Draw some of the keys of one of two texts, in any format."""
    count, start = draw(st.sampled_from(counts)), draw(st.integers(0, 2))
    kept = drawn_kept(draw, numbers(draw, dtype, 1, 2, start + count + 1, heads.kv_heads, heads.size), formats)
    return KeptSpan(kept, draw(st.integers(0, 1)), start, start + count)


def _rows_of(span: KeptSpan, dtype: Any) -> Array:
    """Return the rows of a span as floats, (positions, kv_heads, size)."""
    return floats_of(span.kept, dtype)[span.text, span.start : span.stop]


@st.composite
def _heads(draw: DrawFn, dtype: Any) -> Heads:
    (num_heads, kv_heads), none = draw(st.sampled_from([(1, 1), (3, 1), (8, 2), (10, 2)])), np.zeros((0, 0), dtype)
    return Heads(num_heads, kv_heads, draw(st.sampled_from([8, 32, 48, 64, 96])), np.zeros((1, 4)), none, none, False)


@st.composite
def _attended_means(draw: DrawFn, dtype: Any) -> Arguments:
    heads = draw(_heads(dtype))
    keys, values = ((_span(draw, dtype, heads, (count,)) for count in (9, 70)) for _ in range(2))
    queries = numbers(draw, dtype, heads.num_heads * heads.size)
    return [queries, tuple(keys), tuple(values), BLOCK, heads, _zeros_of(heads, dtype)]


def _attend_to_means_and_keys(
    queries: Array,
    keys: tuple[KeptSpan, KeptSpan],
    values: tuple[KeptSpan, KeptSpan],
    block: int,
    heads: Heads,
    out: Array,
) -> None:
    (far, single), those = (_rows_of(span, out.dtype) for span in keys), [_rows_of(span, out.dtype) for span in values]
    scores = np.empty((heads.num_heads, len(far) + len(single)), out.dtype)
    _score_heads(queries, np.concatenate([far, single]), heads, scores, 0)
    scores[:, : len(far)] += math.log(block) * math.sqrt(heads.size)
    _weigh(scores, scores.shape[1], heads, out)
    _add_values_of_heads(scores, 0, np.concatenate(those), heads, out[: queries.size])


@st.composite
def _scored_span(draw: DrawFn, dtype: Any) -> Arguments:
    heads, column = draw(_heads(dtype)), draw(st.integers(0, 2))
    span = _span(draw, dtype, heads, (0, 1, 4, 33))
    scores = np.full((heads.num_heads, column + span.stop - span.start + ROWS), UNTOUCHED, dtype)
    queries, slow = numbers(draw, dtype, heads.num_heads * heads.size), slow_half(heads.size).astype(np.int8)
    return [queries, span, span, heads, slow, scores, column]


def _score_span(
    queries: Array, span: KeptSpan, following: KeptSpan, heads: Heads, slow: Array, scores: Array, column: int
) -> None:
    keys = _rows_of(span, scores.dtype)
    _score_heads(queries, keys, heads, scores, column)
    end = column + len(keys)
    if len(keys) % ROWS and _is_widened_in_registers(span.kept, scores):
        scores[:, end : end - len(keys) % ROWS + ROWS] = scores[:, end - 1 : end]  # the last key stands for others


@st.composite
def _added_span(draw: DrawFn, dtype: Any) -> Arguments:
    heads, column = draw(_heads(dtype)), draw(st.integers(0, 2))
    span = _span(draw, dtype, heads, (0, 1, 4, 33))
    weights = numbers(draw, dtype, heads.num_heads, column + span.stop - span.start + ROWS)
    out, slow = numbers(draw, dtype, heads.num_heads * (heads.size + 2)), slow_half(heads.size).astype(np.int8)
    return [weights, column, span, span, heads, slow, out]


def _add_span(
    weights: Array, column: int, span: KeptSpan, following: KeptSpan, heads: Heads, slow: Array, out: Array
) -> None:
    _add_values_of_heads(weights, column, _rows_of(span, out.dtype), heads, out[: heads.num_heads * heads.size])


@st.composite
def _kept_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    return [_span(draw, dtype, draw(_heads(dtype)), (3,)).kept, np.zeros(1, dtype)]


def _is_widened_in_registers(kept: Kept, like: Array) -> bool:
    return kept.format != FULL and like.dtype == np.float32 and kept.size % SIDE == 0


@st.composite
def _head_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    heads = draw(_heads(dtype))
    return [_span(draw, dtype, heads, (3,), FORMATS[1:]), draw(st.integers(0, heads.kv_heads - 1)), 4096]


def _rows_of_head(span: KeptSpan, g: int, memory: int) -> tuple[int, ...]:
    kept, size = span.kept, row_bytes(span.kept)
    row = np.arange(kept.memory.size // size).reshape(-1, kept.positions, kept.heads)[span.text, span.start, g]
    return kept.format, memory + int(row) * size, kept.heads * size, span.stop - span.start, kept.size


@st.composite
def _one_span(draw: DrawFn, dtype: Any) -> Arguments:
    return [_span(draw, dtype, draw(_heads(dtype)), (0, 3), FORMATS[1:])]


def _end_after(span: KeptSpan) -> int:
    return min(2 * span.stop - span.start, span.kept.positions)


@st.composite
def _part_of_span(draw: DrawFn, dtype: Any) -> Arguments:
    return [*draw(_one_span(dtype)), draw(st.integers(0, 1)), 2]


def _prefetch_part(span: KeptSpan, number: int, count: int) -> None:
    """Change nothing."""


@st.composite
def _two_heads(draw: DrawFn, dtype: Any) -> Arguments:
    first = draw(st.integers(0, 9))
    return [first, first + draw(st.integers(1, 9))]


def _heads_together(head: int, last: int) -> int:
    return 3 if last - head >= 3 else 1


@st.composite
def _best_keys(draw: DrawFn, dtype: Any) -> Arguments:
    queries, stored, heads, out = draw(_attended_keys(dtype).filter(lambda drawn: len(drawn[1].keys) > 1))
    first = draw(st.integers(0, heads.num_heads))
    top_k = draw(st.integers(1, len(stored.keys) - 1))
    return [queries, stored, top_k, heads, (first, draw(st.integers(first, heads.num_heads))), out]


def _attend_to_best(
    queries: Array, stored: StoredKeys, top_k: int, heads: Heads, own: tuple[int, int], out: Array
) -> None:
    keys, values = stored
    sums, ends = out[: queries.size].reshape(-1, heads.size), out[queries.size :].reshape(2, -1)
    for head in range(*own):
        g = head * heads.kv_heads // heads.num_heads
        scores = keys[:, g] @ queries.reshape(-1, heads.size)[head]
        best = np.sort(np.argsort(-scores, kind="stable")[:top_k])
        weights = scores[best]
        ends[:, head] = _exponentials(weights, 1 / math.sqrt(heads.size))
        sums[head] = weights @ values[best, g]


TWINS: dict[str, Twin] = {
    "decoding.attention.keep_mean_of_block": Twin(_block_arguments, _keep_mean_of_block),
    "decoding.attention.exponentials": Twin(_exponential_arguments, _exponentials, error=1e-5),
    "decoding.attention.relative_entropy": Twin(_entropy_arguments, _relative_entropy, error=1e-5),
    "decoding.attention.store": Twin(step_arguments((codes.STORE,), "heads", "texts", "share"), _store),
    "decoding.attention.pattern_of": Twin(_layer_arguments, _pattern_of),
    "decoding.attention.visible_range": Twin(_pattern_arguments, _visible_range),
    "decoding.attention.attend_to_means_and_keys": Twin(_attended_means, _attend_to_means_and_keys, error=1e-5),
    "decoding.attention.attend_to_best": Twin(_best_keys, _attend_to_best, error=1e-5),
    "decoding.attention.score_span": Twin(_scored_span, _score_span, error=1e-5),
    "decoding.attention.add_span": Twin(_added_span, _add_span, error=1e-5),
    "decoding.attention.is_widened_in_registers": Twin(_kept_arguments, _is_widened_in_registers),
    "decoding.attention.rows_of_head": Twin(_head_arguments, _rows_of_head),
    "decoding.attention.end_after": Twin(_one_span, _end_after),
    "decoding.attention.prefetch_part": Twin(_part_of_span, _prefetch_part),
    "decoding.attention.heads_together": Twin(_two_heads, _heads_together),
    "decoding.attention.weigh": Twin(_weighed, _weigh, error=1e-5),
    "decoding.attention.attend": Twin(_attend_arguments, attend),
    "decoding.attention.attend_in_part": Twin(_part_arguments, _attend_in_part),
    "decoding.attention.join": Twin(_join_arguments, join),
    "decoding.attention.score": Twin(_scored, _score),
    "decoding.attention.add_values": Twin(_weighted, _add_values),
    "decoding.attention.score_heads": Twin(_scored_heads, _score_heads),
    "decoding.attention.add_values_of_heads": Twin(_weighted_heads, _add_values_of_heads),
}
