"""Hypothesis strategies for the arguments of operations on tensors and sequences of different lengths."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.ops.convolution import METHODS
from tests.op_cases import Case, normal, sequences, shapes, values

LENGTHS = st.sampled_from([2, 3, 1, 0, 5, 17])


@st.composite
def convolve(draw: DrawFn) -> Case:
    return Case(values(draw, normal, (draw(LENGTHS),), (draw(LENGTHS),)), {"method": draw(st.sampled_from(METHODS))})


@st.composite
def outer(draw: DrawFn) -> Case:
    return Case(values(draw, normal, draw(shapes())[:2], draw(shapes())[:2]))


@st.composite
def resize_sequences(draw: DrawFn) -> Case:
    offsets, width = draw(sequences()), draw(st.sampled_from([(), (2,), (0,), (2, 3)]))
    lengths = [draw(st.integers(0, 5)) for _ in offsets[1:]]
    options = {"offsets": offsets, "new_offsets": np.cumsum([0, *lengths]), "fill": draw(st.sampled_from([0, -3]))}
    return Case(values(draw, normal, (int(offsets[-1]), *width)), options)


@st.composite
def sum_sequences(draw: DrawFn) -> Case:
    offsets, width = draw(sequences()), draw(st.sampled_from([(), (2,), (0,), (2, 3)]))
    return Case(values(draw, normal, (int(offsets[-1]), *width)), {"offsets": offsets})


@st.composite
def zero_extend(draw: DrawFn) -> Case:
    shape = draw(shapes())
    return Case(values(draw, normal, shape), {"shape": tuple(size + draw(st.integers(0, 2)) for size in shape)})


@st.composite
def zero_extended_stack(draw: DrawFn) -> Case:
    axes, count = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    parts = [tuple(draw(st.integers(0, 3)) for _ in range(axes)) for _ in range(count)]
    return Case(values(draw, normal, *parts))
