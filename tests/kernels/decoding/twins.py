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
from minigrad.kernels.decoding.program import Heads, Share, Step, Texts
from tests.kernels.decoding.line_twins import floats
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers

_SIZE = 120  # elements of memory of each text: a source in the first third, a target in the second
_SOURCE, _TARGET = 3, 48
_KEPT: deque[Array] = deque(maxlen=64)
_MATRICES: dict[int, Array] = {}  # the floats of matrices in small formats, by address
_EPS = 1e-3


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
    return Texts(tokens, lengths, places, numbers(draw, dtype, *shape), numbers(draw, dtype, *shape))


@st.composite
def _heads(draw: DrawFn, dtype: Any) -> Heads:
    kv_heads, group, size = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.sampled_from([2, 6]))
    angles = [numbers(draw, dtype, 6, size // 2) for _ in range(2)]
    return Heads(kv_heads * group, kv_heads, size, angles[0], angles[1], draw(st.booleans()))


def _step_arguments(code: int, *kinds: str) -> Any:
    """Return a strategy of (memory, step, others..., share) for a step on heads or on a register of any size."""

    @st.composite
    def arguments(draw: DrawFn, dtype: Any) -> Arguments:
        memory, heads = _memory(draw, dtype), draw(_heads(dtype))
        queries, keys = (count * heads.size for count in (heads.num_heads, heads.kv_heads))
        size = {codes.ROTATE: draw(st.sampled_from([queries, keys])), codes.STORE: keys, codes.ATTEND: queries}.get(
            code, draw(st.sampled_from([1, 16, 40]))
        )
        rows, adds = (5 if code == codes.EMBED else 1), int(draw(st.booleans()))
        if code == codes.EMBED and adds:
            rows = 6  # of positions
        weight = _address(numbers(draw, dtype, rows, size))
        bias = _address(numbers(draw, dtype, size)) if draw(st.booleans()) else 0
        inputs = rows if code == codes.EMBED else size
        layer = draw(st.integers(0, 1))
        step = Step(code, _SOURCE, _TARGET, inputs, size, weight, bias, adds, layer)
        drawn = {
            "heads": heads,
            "texts": _texts(draw, dtype, memory, heads),
            "eps": dtype(_EPS),
            "flag": draw(st.booleans()),
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


def _normalise(memory: Array, step: Step, eps: float, centred: bool, share: Share) -> None:
    weight = elements_at(step.weight, step.outputs, memory.dtype)
    bias = elements_at(step.bias, step.outputs, memory.dtype) if step.bias else 0
    for text in _mine(memory, share):
        x = memory[text, step.source : step.source + step.outputs].astype(np.float64)
        x -= x.mean() if centred else 0
        y = x / np.sqrt((x * x).mean() + eps)
        memory[text, step.target : step.target + step.outputs] = y * weight + bias


def _activate(memory: Array, step: Step, gated: bool, share: Share) -> None:
    span = _spans(step.outputs, share)
    x = memory[:, step.source : step.source + step.outputs][:, span]
    y = memory[:, step.target : step.target + step.outputs]
    gelu = x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    y[:, span] = x / (1 + np.exp(-x)) * y[:, span] if gated else gelu


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
    for text in _mine(memory, share):
        for place, stored in ((step.source, texts.keys), (step.target, texts.values)):
            new = memory[text, place : place + step.outputs].reshape(heads.kv_heads, heads.size)
            stored[step.layer, texts.places[text], texts.lengths[text]] = new


def _attend(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    tasks = range(len(memory) * heads.num_heads)
    for task in tasks[len(tasks) * share.number // share.threads : len(tasks) * (share.number + 1) // share.threads]:
        text, head = divmod(task, heads.num_heads)
        seen = step.layer, texts.places[text], slice(texts.lengths[text] + 1), head * heads.kv_heads // heads.num_heads
        first = head * heads.size
        scores = texts.keys[seen] @ memory[text, step.source + first : step.source + first + heads.size]
        p = np.exp((scores - scores.max()) / math.sqrt(heads.size))
        out = memory[text, step.target + first : step.target + first + heads.size]
        out[:] = p @ texts.values[seen] / p.sum()


@st.composite
def _program_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    memory, heads = _memory(draw, dtype), draw(_heads(dtype))
    steps = []
    kinds = (codes.EMBED, codes.RMS_NORM, codes.LAYER_NORM, codes.LINEAR, codes.GELU, codes.SWIGLU, codes.ATTEND)
    for code in draw(st.lists(st.sampled_from(kinds), max_size=5)):
        size = heads.num_heads * heads.size if code == codes.ATTEND else 40
        weight = _address(numbers(draw, dtype, 6 if code == codes.EMBED else size, size))
        inputs = 6 if code == codes.EMBED else size
        steps.append(Step(code, _SOURCE, _TARGET, inputs, size, weight, waits=1))
    table = np.array(steps, np.int64).reshape(-1, len(Step._fields))
    texts = _texts(draw, dtype, memory, heads)
    return [table, dtype(_EPS), memory, heads, texts, np.zeros(1, np.int64), Share(0, 1)]


def _run_program(
    program: Array, eps: float, memory: Array, heads: Heads, texts: Texts, arrived: Array, share: Share
) -> None:
    for step in (Step(*row) for row in program.tolist()):
        if step.code == codes.EMBED:
            _embed(memory, step, texts, share)
        elif step.code in (codes.RMS_NORM, codes.LAYER_NORM):
            _normalise(memory, step, eps, step.code == codes.LAYER_NORM, share)
        elif step.code == codes.LINEAR:
            _linear(memory, step, share)
        elif step.code == codes.ATTEND:
            _attend(memory, step, heads, texts, share)
        else:
            _activate(memory, step, step.code == codes.SWIGLU, share)


def _part_arguments(dtype: Any) -> SearchStrategy[Arguments]:
    return st.tuples(st.integers(0, 100), _shares()).map(list)


def _part_of(size: int, share: Share) -> tuple[int, int]:
    span = _spans(size, share)
    return span.start, span.stop


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
    return [numbers(draw, dtype, len(values)), values, g, np.full(values.shape[2], UNTOUCHED, dtype)]


def _add_values(weights: Array, values: Array, g: int, out: Array) -> None:
    out[:] = weights @ values[:, g]


TWINS: dict[str, Twin] = {
    "decoding.products.part_of": Twin(_part_arguments, _part_of),
    "decoding.products.linear": Twin(_linear_arguments, _linear),
    "decoding.rows.embed": Twin(_step_arguments(codes.EMBED, "texts", "share"), _embed),
    "decoding.rows.normalise": Twin(_step_arguments(codes.RMS_NORM, "eps", "flag", "share"), _normalise),
    "decoding.rows.activate": Twin(_step_arguments(codes.GELU, "flag", "share"), _activate),
    "decoding.rows.rotate": Twin(_step_arguments(codes.ROTATE, "heads", "texts", "share"), _rotate),
    "decoding.attention.store": Twin(_step_arguments(codes.STORE, "heads", "texts", "share"), _store),
    "decoding.attention.score": Twin(_scored, _score),
    "decoding.attention.add_values": Twin(_weighted, _add_values),
    "decoding.attention.attend": Twin(_step_arguments(codes.ATTEND, "heads", "texts", "share"), _attend),
    "decoding.machine.run_program": Twin(_program_arguments, _run_program),
}
