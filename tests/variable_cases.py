"""Operations on tensors and sequences of different lengths: strategies for their arguments, and the same in NumPy."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from models.vsla.variable.products import METHODS
from tests.op_cases import Array, Case, normal, sequences, shapes, values

LENGTHS = st.sampled_from([2, 3, 1, 0, 5, 17])


@st.composite
def convolve(draw: DrawFn) -> Case:
    return Case(values(draw, normal, (draw(LENGTHS),), (draw(LENGTHS),)), {"method": draw(st.sampled_from(METHODS))})


def convolve_reference(a: Array, b: Array, method: str) -> Array:
    y = np.zeros(max(0, len(a) + len(b) - 1) if a.size and b.size else 0, a.dtype)
    for i, j in np.ndindex(len(a), len(b)):
        y[i + j] += a[i] * b[j]
    is_finite = np.isfinite(a).all() and np.isfinite(b).all()
    return y if method != "fft" or is_finite else np.full_like(y, np.nan)


@st.composite
def outer(draw: DrawFn) -> Case:
    return Case(values(draw, normal, draw(shapes())[:2], draw(shapes())[:2]))


@st.composite
def resize_sequences(draw: DrawFn) -> Case:
    offsets, width = draw(sequences()), draw(st.sampled_from([(), (2,), (0,), (2, 3)]))
    lengths = [draw(st.integers(0, 5)) for _ in offsets[1:]]
    options = {"offsets": offsets, "new_offsets": np.cumsum([0, *lengths]), "fill": draw(st.sampled_from([0, -3]))}
    return Case(values(draw, normal, (int(offsets[-1]), *width)), options)


def resize_sequences_reference(x: Array, offsets: Array, new_offsets: Array, fill: float) -> Array:
    parts = [np.zeros_like(x, shape=(0, *x.shape[1:]))]
    for sequence, length in zip(_sequences(x, offsets), np.diff(new_offsets), strict=True):
        more = np.full_like(x, fill, shape=(max(0, length - len(sequence)), *x.shape[1:]))
        parts += [sequence[:length], more]
    return np.concatenate(parts)


@st.composite
def sum_sequences(draw: DrawFn) -> Case:
    offsets, width = draw(sequences()), draw(st.sampled_from([(), (2,), (0,), (2, 3)]))
    return Case(values(draw, normal, (int(offsets[-1]), *width)), {"offsets": offsets})


def sum_sequences_reference(x: Array, offsets: Array) -> Array:
    sums = [sequence.sum(axis=0) for sequence in _sequences(x, offsets)]
    return np.stack(sums) if sums else np.zeros_like(x, shape=(0, *x.shape[1:]))


def _sequences(x: Array, offsets: Array) -> list[Array]:
    return [x[start:stop] for start, stop in itertools.pairwise(offsets)]


@st.composite
def zero_extend(draw: DrawFn) -> Case:
    shape = draw(shapes())
    return Case(values(draw, normal, shape), {"shape": tuple(size + draw(st.integers(0, 2)) for size in shape)})


def zero_extend_reference(x: Array, shape: tuple[int, ...]) -> Array:
    y = np.zeros_like(x, shape=shape)
    for index in np.ndindex(x.shape):
        y[index] = x[index]
    return y


@st.composite
def zero_extended_stack(draw: DrawFn) -> Case:
    axes, count = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    parts = [tuple(draw(st.integers(0, 3)) for _ in range(axes)) for _ in range(count)]
    return Case(values(draw, normal, *parts))


def zero_extended_stack_reference(*parts: Array) -> Array:
    longest = tuple(np.max([part.shape for part in parts], axis=0).astype(int))
    return np.stack([zero_extend_reference(part, longest) for part in parts])
