"""Twins of the other steps of a program, and of the loop that carries a program out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from minigrad.kernels.codegen.addresses import elements_at
from minigrad.kernels.codegen.line_products import Lines
from minigrad.kernels.codegen.line_tile import FULL
from minigrad.kernels.decoding import program as codes
from minigrad.kernels.decoding.lines import CODES, pack
from minigrad.kernels.decoding.program import Heads, Share, Step, Texts
from tests.kernels.decoding.attention_twins import attend, join
from tests.kernels.decoding.drawn_steps import (
    ACTIVATIONS,
    EPS,
    JOINED,
    KEPT,
    NORMS,
    SOURCE,
    TARGET,
    address,
    drawn_heads,
    memories,
    shares,
    span_of,
    step_arguments,
    texts_of,
    texts_of_share,
)
from tests.kernels.decoding.line_twins import floats
from tests.kernels.twin import Arguments, Array, Twin, numbers

_MATRICES: dict[int, Array] = {}  # the floats of matrices in small formats, by address


@st.composite
def _linear_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    inputs, outputs = draw(st.sampled_from([1, 5, 33, 40])), draw(st.sampled_from([1, 16, 40, 70]))
    matrix = numbers(draw, dtype, outputs, inputs)
    format = draw(st.sampled_from([None, *CODES])) if dtype == np.float32 else None
    found = Lines(FULL, address(matrix), inputs, outputs)
    if format is not None:
        packed = pack(matrix, format)
        found, matrix = packed.lines(), floats(packed)
        KEPT.extend([packed.elements, packed.scales])
    bias = draw(st.booleans()) and address(numbers(draw, dtype, outputs))
    step = Step(codes.LINEAR, SOURCE, TARGET, inputs, outputs, found.address, int(bias), int(draw(st.booleans())))
    step = step._replace(format=found.format, scales=found.scales)
    _MATRICES[found.address] = matrix
    return [memories(draw, dtype), step, draw(shares())]


def _linear(memory: Array, step: Step, share: Share) -> None:
    if step.format == FULL:
        weight = elements_at(step.weight, step.inputs * step.outputs, memory.dtype).reshape(step.outputs, step.inputs)
    else:
        weight = _MATRICES[step.weight]
    y = memory[:, step.source : step.source + step.inputs] @ weight.T
    y += elements_at(step.bias, step.outputs, memory.dtype) if step.bias else 0
    out = memory[:, step.target : step.target + step.outputs]
    span = span_of(step.outputs, share)
    out[:, span] = y[:, span] + (out[:, span] if step.adds else 0)


def _embed(memory: Array, step: Step, texts: Texts, share: Share) -> None:
    table = elements_at(step.weight, step.inputs * step.outputs, memory.dtype).reshape(-1, step.outputs)
    for text in texts_of_share(memory, share):
        out = memory[text, step.target : step.target + step.outputs]
        out[:] = out + table[texts.lengths[text]] if step.adds else table[texts.tokens[text]]


def _normalise(memory: Array, step: Step, eps: float, share: Share) -> None:
    weight = elements_at(step.weight, step.outputs, memory.dtype)
    bias = elements_at(step.bias, step.outputs, memory.dtype) if step.bias else np.zeros(step.outputs)
    for text in texts_of_share(memory, share):
        x = memory[text, step.source : step.source + step.outputs].astype(np.float64)
        x -= x.mean() if step.code == codes.LAYER_NORM else 0
        x += bias if step.code == codes.OFFSET_RMS_NORM else 0
        y = x / np.sqrt((x * x).mean() + eps) * weight
        memory[text, step.target : step.target + step.outputs] = y + (bias if step.code == codes.LAYER_NORM else 0)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _activate(memory: Array, step: Step, share: Share) -> None:
    span = span_of(step.outputs, share)
    x = memory[:, step.source : step.source + step.outputs][:, span]
    y = memory[:, step.target : step.target + step.outputs]
    if step.code == codes.SWIGLU:
        y[:, span] *= x * _logistic(x)
    elif step.code == codes.SIGMOID_GATE:
        y[:, span] *= _logistic(x)
    elif step.code == codes.ADD:
        y[:, span] += x
    elif step.code == codes.EXACT_GELU:
        y[:, span] = x / 2 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))
    else:
        y[:, span] = x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _summarise(memory: Array, step: Step, texts: Texts, share: Share) -> None:
    for text in texts_of_share(memory, share):
        sums = texts.sums[step.layer, texts.places[text], : step.outputs]
        sums += memory[text, step.source : step.source + step.outputs]
        memory[text, step.target : step.target + step.outputs] = sums / (texts.lengths[text] + 1)


@st.composite
def _few_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    none, count, group = np.zeros((0, 0), dtype), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    heads = Heads(2 * group, 2, 3, np.zeros((1, 4)), none, none, False)
    size = 6 * group
    beta = address(np.array([draw(st.sampled_from([0.0, 0.3, 1.0]))], dtype))
    step = Step(codes.ATTEND_TO_FEW, SOURCE, TARGET + 20, size + 2 * count * 6, size, beta)
    return [memories(draw, dtype), step, heads, draw(shares())]


def _attend_to_few(memory: Array, step: Step, heads: Heads, share: Share) -> None:
    beta, group = elements_at(step.weight, 1, memory.dtype)[0], heads.num_heads // heads.kv_heads
    for text in texts_of_share(memory, share):
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
    return [memories(draw, dtype), Step(codes.BLEND, SOURCE, SOURCE + 3 * size, 3 * size, size), draw(shares())]


def _blend(memory: Array, step: Step, share: Share) -> None:
    span = span_of(step.outputs, share)
    parts = memory[:, step.source : step.source + step.inputs].reshape(len(memory), 3, step.outputs)
    a, b, gate = (parts[:, part, span] for part in range(3))
    memory[:, step.target : step.target + step.outputs][:, span] += _logistic(gate) * a + (1 - _logistic(gate)) * b


def _rotate(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    for text in texts_of_share(memory, share):
        x = memory[text, step.target : step.target + step.outputs].reshape(-1, heads.size)
        angles = heads.cosine[texts.lengths[text]] + 1j * heads.sine[texts.lengths[text]]
        half = heads.size // 2
        first, second = (
            (slice(0, None, 2), slice(1, None, 2)) if heads.interleaved else (slice(half), slice(half, None))
        )
        turned = (x[:, first] + 1j * x[:, second]) * angles
        x[:, first], x[:, second] = turned.real, turned.imag


@st.composite
def _program_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    memory, heads = memories(draw, dtype), draw(drawn_heads(dtype))
    steps = []
    kinds = (codes.EMBED, *NORMS, codes.LINEAR, *ACTIVATIONS, codes.ATTEND, codes.SUMMARISE)
    for code in draw(st.lists(st.sampled_from(kinds), max_size=5)):
        size = heads.num_heads * heads.size if code == codes.ATTEND else 40
        weight = address(numbers(draw, dtype, 6 if code == codes.EMBED else size, size))
        inputs = 6 if code == codes.EMBED else size
        steps.append(Step(code, SOURCE, TARGET, inputs, size, weight, weight if code in NORMS else 0, waits=1))
        if code == codes.ATTEND:
            steps.append(Step(codes.JOIN, TARGET, JOINED, size, size, waits=1))
    table = np.array(steps, np.int64).reshape(-1, len(Step._fields))
    texts = texts_of(draw, dtype, memory, heads)
    return [table, EPS, memory, heads, texts, np.zeros(1, np.int64), Share(0, 1)]


def _run_program(
    program: Array, eps: float, memory: Array, heads: Heads, texts: Texts, arrived: Array, share: Share
) -> None:
    for step in (Step(*row) for row in program.tolist()):
        if step.code == codes.EMBED:
            _embed(memory, step, texts, share)
        elif step.code in NORMS:
            _normalise(memory, step, eps, share)
        elif step.code == codes.LINEAR:
            _linear(memory, step, share)
        elif step.code == codes.ATTEND:
            attend(memory, step, heads, texts, share)
        elif step.code == codes.JOIN:
            join(memory, step, heads, texts, share)
        elif step.code == codes.SUMMARISE:
            _summarise(memory, step, texts, share)
        else:
            _activate(memory, step, share)


def _part_arguments(dtype: Any) -> SearchStrategy[Arguments]:
    return st.tuples(st.integers(0, 100), shares()).map(list)


def _part_of(size: int, share: Share) -> tuple[int, int]:
    span = span_of(size, share)
    return span.start, span.stop


TWINS: dict[str, Twin] = {
    "decoding.products.part_of": Twin(_part_arguments, _part_of),
    "decoding.products.linear": Twin(_linear_arguments, _linear),
    "decoding.rows.embed": Twin(step_arguments((codes.EMBED,), "texts", "share"), _embed),
    "decoding.rows.normalise": Twin(step_arguments(NORMS, "eps", "share"), _normalise),
    "decoding.rows.activate": Twin(step_arguments(ACTIVATIONS, "share"), _activate),
    "decoding.rows.rotate": Twin(step_arguments((codes.ROTATE,), "heads", "texts", "share"), _rotate),
    "decoding.rows.summarise": Twin(step_arguments((codes.SUMMARISE,), "texts", "share"), _summarise),
    "decoding.rows.attend_to_few": Twin(_few_arguments, _attend_to_few),
    "decoding.rows.blend": Twin(_blend_arguments, _blend),
    "decoding.machine.run_program": Twin(_program_arguments, _run_program),
}
