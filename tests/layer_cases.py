"""Hypothesis strategies for calls of every layer: its shape and settings, its inputs and its parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from minigrad import Tensor, nn, ops
from minigrad.adapters.low_rank import LowRank, LowRankLinear
from minigrad.adapters.token_rows import AdaptedEmbedding, TokenRows
from minigrad.experts import Experts
from minigrad.nn.layers import Function
from minigrad.nn.loss_pass import LossPass, computing
from minigrad.nn.module import Module
from models.vsla.patterns import LearnedPattern
from tests.op_cases import Array, Case, Shape, normal, sequences, shapes, values

SIZES = st.sampled_from([2, 4, 1, 3])
FLAGS = st.booleans()


def call(*tensors: Tensor, layer: Module, how: Callable[..., Tensor] = Module.__call__, **options: Any) -> Tensor:
    """Call a layer as an operation of its inputs and its parameters, which are the last tensors."""
    parameters = layer.parameters()
    inputs = tensors[: len(tensors) - len(parameters)]
    for parameter, tensor in zip(parameters, tensors[len(inputs) :], strict=True):
        assert parameter.shape == tensor.shape
        parameter._data, parameter.node, parameter.version = tensor.data, tensor.node, tensor.version
    return how(layer, *inputs, **options)


def of(draw: DrawFn, layer: Module, *inputs: Array, **options: Any) -> Case:
    """Draw the parameters of a layer, so that none is 0 or 1, and return the call."""

    def moderate(rng: np.random.Generator, shape: Shape) -> Array:
        return rng.normal(0, 0.6, shape)  # so that no softmax or GELU is flat

    parameters = values(draw, moderate, *[each.shape for each in layer.parameters()])
    return Case((*inputs, *parameters), {"layer": layer, **options})


def layouts() -> SearchStrategy[nn.Layout]:
    """Draw up to three packed sequences, some empty."""
    return sequences().map(lambda offsets: nn.Layout.packed(np.diff(offsets)))


def rows(draw: DrawFn, count: int, width: int) -> Array:
    return values(draw, normal, (count, width))[0]


# Single layers.


@st.composite
def linear(draw: DrawFn, kind: type[nn.Linear | nn.Conv1D]) -> Case:
    shape, outputs = draw(shapes(min_dims=1)), draw(SIZES)
    layer = kind(shape[-1], outputs, **({"bias": draw(FLAGS)} if kind is nn.Linear else {}))
    return of(draw, layer, *values(draw, normal, shape))


@st.composite
def low_rank_linear(draw: DrawFn) -> Case:
    shape, outputs = draw(shapes(min_dims=1)), draw(SIZES)
    layer = draw(st.sampled_from([nn.Linear, nn.Conv1D]))(shape[-1], outputs)
    return of(draw, LowRankLinear(layer, draw(st.integers(1, 2))), *values(draw, normal, shape))


@st.composite
def low_rank(draw: DrawFn) -> Case:
    shape = draw(shapes(min_dims=1))
    return of(draw, LowRank(shape[-1], draw(SIZES), draw(st.integers(1, 3))), *values(draw, normal, shape))


@st.composite
def embedding(draw: DrawFn) -> Case:
    vocab_size, width = draw(st.integers(2, 5)), draw(SIZES)
    layer = nn.Embedding(vocab_size, width)
    ids = draw(st.lists(st.integers(0, vocab_size - 1), max_size=5))
    return of(draw, layer, np.array(ids, np.int64))


@st.composite
def adapted_embedding(draw: DrawFn) -> Case:
    vocab_size, width = draw(st.integers(2, 5)), draw(SIZES)
    layer = AdaptedEmbedding(nn.Embedding(vocab_size, width), [vocab_size - 1, 0])
    ids = draw(st.lists(st.integers(0, vocab_size - 1), max_size=5))
    return of(draw, layer, np.array(ids, np.int64))


def _logits(layer: TokenRows, x: Tensor, weight: Tensor) -> Tensor:
    return ops.linear(*layer.widen(x, weight))  # the weight is frozen


@st.composite
def token_rows(draw: DrawFn) -> Case:
    """Draw rows that are looked up, or what they add to logits."""
    vocab_size, width = draw(st.integers(2, 5)), draw(SIZES)
    layer = TokenRows([vocab_size - 1, 0], width)
    if draw(FLAGS):
        return of(
            draw, layer, draw(st.lists(st.integers(0, vocab_size - 1), max_size=5).map(np.array)).astype(np.int64)
        )
    x, weight = values(draw, normal, (draw(st.integers(0, 4)), width), (vocab_size, width))
    return of(draw, layer, x, how=lambda layer, x: _logits(layer, x, Tensor(weight.astype(x.dtype))))


@st.composite
def norm(draw: DrawFn, kind: Callable[..., Module]) -> Case:
    shape = (*draw(shapes())[:2], draw(st.sampled_from([3, 1, 2, 17])))
    # Short rows of nearly equal values are ill-conditioned without a larger eps.
    eps = draw(st.sampled_from([1e-6, 1e-2] if shape[-1] > 3 else [1e-2, 1e-1]))
    return of(draw, kind(shape[-1], eps=eps), *values(draw, normal, shape))


@st.composite
def sequential(draw: DrawFn, kind: type[nn.Sequential]) -> Case:
    width = draw(SIZES)
    layer = kind(nn.Linear(width, 3), ops.tanh, nn.Linear(3, width, bias=False))
    return of(draw, layer, rows(draw, draw(st.integers(0, 4)), width))


@st.composite
def function(draw: DrawFn) -> Case:
    return of(
        draw, Function(draw(st.sampled_from([ops.silu, ops.tanh, ops.gelu]))), *values(draw, normal, draw(shapes()))
    )


@st.composite
def dropout(draw: DrawFn) -> Case:
    layer = dropped(draw, nn.Dropout(draw(st.sampled_from([0.3, 0.0, 0.9]))))
    return of(draw, layer.train(draw(FLAGS)), *values(draw, normal, draw(shapes(min_dims=1))))


def dropped(draw: DrawFn, layer: Any) -> Any:
    """Draw which elements the dropout layers inside a layer drop."""
    nn.set_step(nn.dropouts(layer), seed=draw(st.integers(0, 9)), step=draw(st.integers(0, 9)))
    return layer


# Feed-forward blocks.


@st.composite
def feed_forward(draw: DrawFn, kind: Callable[..., Module], hidden: int = 1) -> Case:
    """Draw a block of rows with `hidden` widths inside it."""
    width, inside = draw(SIZES), [draw(SIZES) for _ in range(hidden)]
    settings = {"dropout": 0.3} if kind is nn.Conv1DFeedForward and draw(FLAGS) else {}
    return of(draw, dropped(draw, kind(width, *inside, **settings)), rows(draw, draw(st.integers(0, 5)), width))


def with_balance(block: Experts, x: Tensor, layout: nn.Layout, counted: Array) -> Tensor:
    """Return the output of experts and what the loss adds to balance their load, as one array."""
    with computing(current := LossPass(layout, counted)):
        y = block(x)
    return ops.concatenate(y.reshape(-1), *(each.reshape(1) for each in current.added))


@st.composite
def experts(draw: DrawFn) -> Case:
    width, count = draw(SIZES), draw(st.integers(1, 4))
    kind = draw(st.sampled_from([nn.SwiGLUFeedForward, nn.Conv1DFeedForward]))
    block = Experts(width, count, draw(st.integers(1, count)), lambda: kind(width, 2), balance=1.0)
    layout = draw(layouts())
    x, drawn = rows(draw, len(layout.positions), width), draw(st.integers(0, 99))
    counted = np.random.default_rng(drawn).random(len(x)) < 0.8
    return of(draw, block, x, how=with_balance, layout=layout, counted=counted)


# Attention and positions.


@st.composite
def self_attention(draw: DrawFn) -> Case:
    heads, size = draw(st.integers(1, 2)), draw(st.sampled_from([2, 4]))
    theta = draw(st.sampled_from([None, 10.0]))
    layer = nn.SelfAttention(heads * size, heads, is_causal=draw(FLAGS), bias=draw(FLAGS), rope_theta=theta)
    lead = [draw(st.integers(1, 2))] * draw(st.integers(0, 1))
    return of(draw, layer, *values(draw, normal, (*lead, draw(st.integers(1, 4)), heads * size)))


def plain_angles(draw: DrawFn, size: int) -> nn.RotaryAngles:
    return nn.RotaryAngles(size, draw(st.sampled_from([10.0, 1e4])), interleaved=draw(FLAGS))


def linear_angles(draw: DrawFn, size: int) -> nn.RotaryAngles:
    return nn.LinearAngles(size, 100.0, factor=draw(st.floats(1, 16)))


def ntk_angles(draw: DrawFn, size: int) -> nn.RotaryAngles:
    return nn.NTKAngles(2 * size, 100.0, factor=draw(st.floats(1, 16)))


def yarn_angles(draw: DrawFn, size: int) -> nn.RotaryAngles:
    slow, factor = draw(st.floats(0.5, 2)), draw(st.sampled_from([None, 1.3]))
    betas = {"beta_slow": slow, "beta_fast": slow * draw(st.floats(1.5, 20)), "attention_factor": factor}
    return nn.YarnAngles(
        size, 100.0, factor=draw(st.floats(1, 16)), original_context=draw(st.integers(4, 512)), **betas
    )


def rotate(x: Tensor, angles: nn.RotaryAngles, layout: nn.Layout) -> Tensor:
    return angles.rotate(x, layout)


@st.composite
def rotated(draw: DrawFn, kind: Callable[[DrawFn, int], nn.RotaryAngles]) -> Case:
    """Draw heads at any positions, near and far."""
    angles = kind(draw, 2 * draw(st.integers(1, 4)))
    positions = np.array(draw(st.lists(st.integers(0, 600), max_size=5)), np.int64)
    x = values(draw, normal, (len(positions), draw(st.integers(1, 3)), 2 * len(angles.frequencies)))
    return Case(x, {"angles": angles, "layout": nn.Layout(np.array([0, len(positions)]), positions)})


@st.composite
def grouped_query_attention(draw: DrawFn) -> Case:
    groups, size, width, layout = draw(st.integers(1, 2)), 4, draw(SIZES), draw(layouts())
    heads = groups * draw(st.integers(1, 2))
    layer = nn.GroupedQueryAttention(width, heads, groups, size, key_shift=draw(FLAGS))
    kind = draw(st.sampled_from([None, plain_angles, linear_angles, yarn_angles]))
    angles = None if kind is None else kind(draw, size)
    x, first_values = (rows(draw, len(layout.positions), each) for each in (width, size * groups))
    given = [x, first_values] if draw(FLAGS) else [x]
    return of(draw, layer, *given, how=with_first_values, layout=layout, angles=angles)


def with_first_values(layer: nn.Module, x: Tensor, first_values: Tensor | None = None, **options: Any) -> Tensor:
    """Call attention with the values of the first layer, or without."""
    result: Tensor = layer(x, first_values=first_values, **options)
    return result


def _attend(layer: LearnedPattern, *arrays: Tensor, offsets: Array) -> Tensor:
    return layer.attend(*arrays, offsets)


@st.composite
def learned_pattern(draw: DrawFn) -> Case:
    heads, sizes = draw(st.integers(1, 2)), {name: draw(st.integers(1, 3)) for name in ("window", "block", "top_k")}
    offsets = draw(sequences())
    qkv = values(draw, normal, *[(int(offsets[-1]), heads, 2)] * 3)
    return of(draw, LearnedPattern(heads, **sizes), *qkv, how=_attend, offsets=offsets)
