"""Twins of the steps of a program, and of the loop that carries a program out.

A step holds the address of its weights. The arrays that are drawn are kept here as long as a call can take.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from minigrad.kernels.codegen.addresses import address_of, elements_at
from minigrad.kernels.codegen.line_products import Lines
from minigrad.kernels.codegen.line_tile import FULL
from minigrad.kernels.decoding import program as codes
from minigrad.kernels.decoding.lines import CODES, pack
from minigrad.kernels.decoding.program import Heads, Pattern, Share, Step, Texts
from tests.kernels.decoding.line_twins import floats
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers

_SIZE = 120  # elements of memory of each text: a source in the first third, a target in the second
_SOURCE, _TARGET = 3, 48
_KEPT: deque[Array] = deque(maxlen=64)
_MATRICES: dict[int, Array] = {}  # the floats of matrices in small formats, by address
_EPS = 1e-3
_NORMS = codes.RMS_NORM, codes.OFFSET_RMS_NORM, codes.LAYER_NORM
_ACTIVATIONS = codes.GELU, codes.EXACT_GELU, codes.SWIGLU, codes.SIGMOID_GATE
_BLOCK = 2
_PATTERNS = [Pattern(), Pattern(3), Pattern(3, _BLOCK), Pattern(top_k=2), Pattern(3, _BLOCK, entropy=0.7)]


def _address(array: Array) -> int:
    _KEPT.append(array)
    return address_of(array)


@st.composite
def _shares(draw: DrawFn) -> Share:
    threads = draw(st.integers(1, 3))
    return Share(draw(st.integers(0, threads - 1)), threads)


def _memory(draw: DrawFn, dtype: Any) -> Array:
    return numbers(draw, dtype, draw(st.integers(0, 3)), _SIZE)


def _spans(size: int, share: Share) -> slice:
    """Return a thread's share of elements: whole blocks of 16, as equal as can be."""
    cuts = [min(math.ceil(size / 16) * number // share.threads * 16, size) for number in range(share.threads + 1)]
    return slice(cuts[share.number], cuts[share.number + 1])


@st.composite
def _linear_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, outputs = draw(st.sampled_from([1, 5, 33, 40])), draw(st.sampled_from([1, 16, 40, 70]))
    matrix = numbers(draw, dtype, outputs, inputs)
    format = draw(st.sampled_from([None, *CODES])) if dtype == np.float32 else None
    found = Lines(FULL, _address(matrix), inputs, outputs)
    if format is not None:
        packed = pack(matrix, format)
        found, matrix = packed.lines(), floats(packed)
        _KEPT.extend([packed.elements, packed.scales])
    bias = draw(st.booleans()) and _address(numbers(draw, dtype, outputs))
    step = Step(codes.LINEAR, _SOURCE, _TARGET, inputs, outputs, found.address, int(bias), int(draw(st.booleans())))
    step = step._replace(format=found.format, scales=found.scales)
    _MATRICES[found.address] = matrix
    return [_memory(draw, dtype), step, draw(_shares())]


def _linear(memory: Array, step: Step, share: Share) -> None:
    if step.format == FULL:
        weight = elements_at(step.weight, step.inputs * step.outputs, memory.dtype).reshape(step.outputs, step.inputs)
    else:
        weight = _MATRICES[step.weight]
    y = memory[:, step.source : step.source + step.inputs] @ weight.T
    y += elements_at(step.bias, step.outputs, memory.dtype) if step.bias else 0
    out = memory[:, step.target : step.target + step.outputs]
    span = _spans(step.outputs, share)
    out[:, span] = y[:, span] + (out[:, span] if step.adds else 0)


def _texts(draw: DrawFn, dtype: Any, memory: Array, heads: Heads) -> Texts:
    count, positions = len(memory), 6
    shape = (2, count + 1, positions, heads.kv_heads, heads.size)
    places = np.delete(np.arange(count + 1), draw(st.integers(0, count)))
    lengths = np.array([draw(st.integers(0, positions - 1)) for _ in range(count)], np.int64)
    tokens = np.array([draw(st.integers(0, 4)) for _ in range(count)], np.int64)
    stored = (numbers(draw, dtype, *shape), numbers(draw, dtype, *shape))
    far = (x.reshape(2, count + 1, -1, _BLOCK, heads.kv_heads, heads.size).mean(3) for x in stored)
    sums = numbers(draw, np.float64, 2, count + 1, 40)
    return Texts(tokens, lengths, places, *stored, *far, sums)


@st.composite
def _heads(draw: DrawFn, dtype: Any) -> Heads:
    kv_heads, group, size = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.sampled_from([2, 6]))
    angles = [numbers(draw, dtype, 6, size // 2) for _ in range(2)]
    patterns = np.array([draw(st.sampled_from(_PATTERNS)) for _ in range(2)], np.float64)
    return Heads(kv_heads * group, kv_heads, size, patterns, angles[0], angles[1], draw(st.booleans()))


def _step_arguments(choice: tuple[int, ...], *kinds: str) -> Any:
    """Return a strategy of (memory, step, others..., share) for a step on heads or on a register of any size."""

    @st.composite
    def arguments(draw: DrawFn, dtype: Any) -> Arguments:
        code = draw(st.sampled_from(choice))
        memory, heads = _memory(draw, dtype), draw(_heads(dtype))
        queries, keys = (count * heads.size for count in (heads.num_heads, heads.kv_heads))
        size = {codes.ROTATE: draw(st.sampled_from([queries, keys])), codes.STORE: keys, codes.ATTEND: queries}.get(
            code, draw(st.sampled_from([1, 16, 40]))
        )
        rows, adds = (5 if code == codes.EMBED else 1), int(draw(st.booleans()))
        if code == codes.EMBED and adds:
            rows = 6  # of positions
        weight = _address(numbers(draw, dtype, rows, size))
        has_bias = code in (codes.LAYER_NORM, codes.OFFSET_RMS_NORM)
        bias = _address(numbers(draw, dtype, size)) if has_bias else 0
        inputs = rows if code == codes.EMBED else size
        layer = draw(st.integers(0, 1))
        step = Step(code, _SOURCE, _TARGET, inputs, size, weight, bias, adds, layer)
        drawn = {
            "heads": heads,
            "texts": _texts(draw, dtype, memory, heads),
            "eps": dtype(_EPS),
            "share": draw(_shares()),
        }
        return [memory, step, *(drawn[kind] for kind in kinds)]

    return arguments


def _mine(memory: Array, share: Share) -> range:
    return range(share.number, len(memory), share.threads)


def _embed(memory: Array, step: Step, texts: Texts, share: Share) -> None:
    table = elements_at(step.weight, step.inputs * step.outputs, memory.dtype).reshape(-1, step.outputs)
    for text in _mine(memory, share):
        out = memory[text, step.target : step.target + step.outputs]
        out[:] = out + table[texts.lengths[text]] if step.adds else table[texts.tokens[text]]


def _normalise(memory: Array, step: Step, eps: float, share: Share) -> None:
    weight = elements_at(step.weight, step.outputs, memory.dtype)
    bias = elements_at(step.bias, step.outputs, memory.dtype) if step.bias else np.zeros(step.outputs)
    for text in _mine(memory, share):
        x = memory[text, step.source : step.source + step.outputs].astype(np.float64)
        x -= x.mean() if step.code == codes.LAYER_NORM else 0
        x += bias if step.code == codes.OFFSET_RMS_NORM else 0
        y = x / np.sqrt((x * x).mean() + eps) * weight
        memory[text, step.target : step.target + step.outputs] = y + (bias if step.code == codes.LAYER_NORM else 0)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _activate(memory: Array, step: Step, share: Share) -> None:
    span = _spans(step.outputs, share)
    x = memory[:, step.source : step.source + step.outputs][:, span]
    y = memory[:, step.target : step.target + step.outputs]
    if step.code == codes.SWIGLU:
        y[:, span] *= x * _logistic(x)
    elif step.code == codes.SIGMOID_GATE:
        y[:, span] *= _logistic(x)
    elif step.code == codes.EXACT_GELU:
        y[:, span] = x / 2 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))
    else:
        y[:, span] = x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _summarise(memory: Array, step: Step, texts: Texts, share: Share) -> None:
    for text in _mine(memory, share):
        sums = texts.sums[step.layer, texts.places[text], : step.outputs]
        sums += memory[text, step.source : step.source + step.outputs]
        memory[text, step.target : step.target + step.outputs] = sums / (texts.lengths[text] + 1)


@st.composite
def _few_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    none, count, group = np.zeros((0, 0), dtype), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    heads = Heads(2 * group, 2, 3, np.zeros((1, 4)), none, none, False)
    size = 6 * group
    beta = _address(np.array([draw(st.sampled_from([0.0, 0.3, 1.0]))], dtype))
    step = Step(codes.ATTEND_TO_FEW, _SOURCE, _TARGET + 20, size + 2 * count * 6, size, beta)
    return [_memory(draw, dtype), step, heads, draw(_shares())]


def _attend_to_few(memory: Array, step: Step, heads: Heads, share: Share) -> None:
    beta, group = elements_at(step.weight, 1, memory.dtype)[0], heads.num_heads // heads.kv_heads
    for text in _mine(memory, share):
        source = memory[text, step.source : step.source + step.inputs]
        q, rest = source[: step.outputs].reshape(heads.num_heads, 3), source[step.outputs :]
        k, v = (x.repeat(group, axis=1) for x in rest.reshape(2, -1, heads.kv_heads, 3))
        p = np.exp(np.einsum("hd,nhd->hn", q, k) / math.sqrt(3))
        out = np.einsum("hn,nhd->hd", p / p.sum(axis=1, keepdims=True), v).reshape(-1)
        target = memory[text, step.target : step.target + step.outputs]
        target[:] = target * (1 - beta) + out * beta


@st.composite
def _blend_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    size = draw(st.sampled_from([1, 16, 25]))
    return [_memory(draw, dtype), Step(codes.BLEND, _SOURCE, _SOURCE + 3 * size, 3 * size, size), draw(_shares())]


def _blend(memory: Array, step: Step, share: Share) -> None:
    span = _spans(step.outputs, share)
    parts = memory[:, step.source : step.source + step.inputs].reshape(len(memory), 3, step.outputs)
    a, b, gate = (parts[:, part, span] for part in range(3))
    memory[:, step.target : step.target + step.outputs][:, span] += _logistic(gate) * a + (1 - _logistic(gate)) * b


def _rotate(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    for text in _mine(memory, share):
        x = memory[text, step.target : step.target + step.outputs].reshape(-1, heads.size)
        angles = heads.cosine[texts.lengths[text]] + 1j * heads.sine[texts.lengths[text]]
        half = heads.size // 2
        first, second = (
            (slice(0, None, 2), slice(1, None, 2)) if heads.interleaved else (slice(half), slice(half, None))
        )
        turned = (x[:, first] + 1j * x[:, second]) * angles
        x[:, first], x[:, second] = turned.real, turned.imag


def _store(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    block = Pattern(*heads.patterns[step.layer]).block
    for text in _mine(memory, share):
        place, stop = texts.places[text], texts.lengths[text] + 1
        both = (step.source, texts.keys, texts.far_keys), (step.target, texts.values, texts.far_values)
        for start, stored, means in both:
            new = memory[text, start : start + step.outputs].reshape(heads.kv_heads, heads.size)
            stored[step.layer, place, stop - 1] = new
            if block and stop % block == 0:
                means[step.layer, place, int(stop // block) - 1] = stored[step.layer, place, stop - _BLOCK : stop].mean(
                    0
                )


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
    if pattern.top_k:
        chosen = np.argsort(-scores, kind="stable")[: int(pattern.top_k)]
        return scores[chosen], values[chosen]
    if not pattern.block:
        return scores[first:], values[first:]
    first = first // _BLOCK * _BLOCK
    means, mean_values = (
        x[: first if is_spread else 0].reshape(-1, _BLOCK, len(query)).mean(1) for x in (keys, values)
    )
    far = means @ query / math.sqrt(len(query)) + math.log(_BLOCK)
    return np.concatenate([far, scores[first:]]), np.concatenate([mean_values, values[first:]])


def _attend(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    pattern = Pattern(*heads.patterns[step.layer])
    unit = heads.num_heads if pattern.entropy >= 0 else 1
    units = len(memory) * heads.num_heads // unit
    for task in range(units * share.number // share.threads * unit, units * (share.number + 1) // share.threads * unit):
        text, head = divmod(task, heads.num_heads)
        seen = (step.layer, texts.places[text], slice(texts.lengths[text] + 1))
        g, size = head * heads.kv_heads // heads.num_heads, heads.size
        queries = memory[text, step.source : step.source + heads.num_heads * size]
        first = max(int(texts.lengths[text]) + 1 - int(pattern.window), 0) // _BLOCK * _BLOCK
        is_spread = pattern.entropy < 0
        if not is_spread:
            is_spread = _entropies(queries, texts.keys[seen][first:], heads).mean() > pattern.entropy
        query = queries[head * size : (head + 1) * size]
        scores, values = _seen_by(query, texts.keys[seen][:, g], texts.values[seen][:, g], pattern, is_spread)
        p = np.exp(scores - scores.max())
        memory[text, step.target + head * size : step.target + (head + 1) * size] = p @ values / p.sum()


@st.composite
def _program_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    memory, heads = _memory(draw, dtype), draw(_heads(dtype))
    steps = []
    kinds = (codes.EMBED, *_NORMS, codes.LINEAR, *_ACTIVATIONS, codes.ATTEND, codes.SUMMARISE)
    for code in draw(st.lists(st.sampled_from(kinds), max_size=5)):
        size = heads.num_heads * heads.size if code == codes.ATTEND else 40
        weight = _address(numbers(draw, dtype, 6 if code == codes.EMBED else size, size))
        inputs = 6 if code == codes.EMBED else size
        steps.append(Step(code, _SOURCE, _TARGET, inputs, size, weight, weight if code in _NORMS else 0, waits=1))
    table = np.array(steps, np.int64).reshape(-1, len(Step._fields))
    texts = _texts(draw, dtype, memory, heads)
    return [table, dtype(_EPS), memory, heads, texts, np.zeros(1, np.int64), Share(0, 1)]


def _run_program(
    program: Array, eps: float, memory: Array, heads: Heads, texts: Texts, arrived: Array, share: Share
) -> None:
    for step in (Step(*row) for row in program.tolist()):
        if step.code == codes.EMBED:
            _embed(memory, step, texts, share)
        elif step.code in _NORMS:
            _normalise(memory, step, eps, share)
        elif step.code == codes.LINEAR:
            _linear(memory, step, share)
        elif step.code == codes.ATTEND:
            _attend(memory, step, heads, texts, share)
        elif step.code == codes.SUMMARISE:
            _summarise(memory, step, texts, share)
        else:
            _activate(memory, step, share)


def _part_arguments(dtype: Any) -> SearchStrategy[Arguments]:
    return st.tuples(st.integers(0, 100), _shares()).map(list)


def _part_of(size: int, share: Share) -> tuple[int, int]:
    span = _spans(size, share)
    return span.start, span.stop


@st.composite
def _block_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    return [numbers(draw, dtype, 4, 2, 3), draw(st.integers(0, 1)), _BLOCK, numbers(draw, dtype, 2, 2, 3)]


def _mean_of_block(rows: Array, number: int, block: int, means: Array) -> None:
    means[number] = rows[number * block : (number + 1) * block].mean(axis=0)


@st.composite
def _exponential_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    return [numbers(draw, dtype, draw(st.integers(1, 40))), dtype(0.3)]


def _exponentials(scores: Array, scale: float) -> Any:
    return np.exp((scores.astype(np.float64) - scores.max()) * scale).sum()


@st.composite
def _entropy_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    none, keys = np.zeros((0, 0), dtype), numbers(draw, dtype, draw(st.sampled_from([0, 1, 4, 9])), 2, 3)
    heads = Heads(4, 2, 3, np.zeros((1, 4)), none, none, False)
    return [numbers(draw, dtype, 12), keys, heads, numbers(draw, dtype, len(keys))]


def _relative_entropy(queries: Array, keys: Array, heads: Heads, scores: Array) -> Any:
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


TWINS: dict[str, Twin] = {
    "decoding.attention.mean_of_block": Twin(_block_arguments, _mean_of_block),
    "decoding.attention.exponentials": Twin(_exponential_arguments, _exponentials, error=1e-5),
    "decoding.attention.relative_entropy": Twin(_entropy_arguments, _relative_entropy, error=1e-5),
    "decoding.products.part_of": Twin(_part_arguments, _part_of),
    "decoding.products.linear": Twin(_linear_arguments, _linear),
    "decoding.rows.embed": Twin(_step_arguments((codes.EMBED,), "texts", "share"), _embed),
    "decoding.rows.normalise": Twin(_step_arguments(_NORMS, "eps", "share"), _normalise),
    "decoding.rows.activate": Twin(_step_arguments(_ACTIVATIONS, "share"), _activate),
    "decoding.rows.rotate": Twin(_step_arguments((codes.ROTATE,), "heads", "texts", "share"), _rotate),
    "decoding.summaries.summarise": Twin(_step_arguments((codes.SUMMARISE,), "texts", "share"), _summarise),
    "decoding.summaries.attend_to_few": Twin(_few_arguments, _attend_to_few),
    "decoding.summaries.blend": Twin(_blend_arguments, _blend),
    "decoding.attention.store": Twin(_step_arguments((codes.STORE,), "heads", "texts", "share"), _store),
    "decoding.attention.attend": Twin(_step_arguments((codes.ATTEND,), "heads", "texts", "share"), _attend),
    "decoding.attention.score": Twin(_scored, _score),
    "decoding.attention.add_values": Twin(_weighted, _add_values),
    "decoding.machine.run_program": Twin(_program_arguments, _run_program),
}
