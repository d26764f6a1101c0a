"""Hypothesis strategies for the arguments of every operation: shapes, values and options that each accepts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from minigrad.ops.distillation import TeacherOutputs

Array = NDArray[Any]
Shape = tuple[int, ...]
Values = Callable[[np.random.Generator, Shape], Array]


@dataclass(frozen=True)
class Case:
    """One call: arrays by position (float64 and integers), options by name."""

    arrays: tuple[Array, ...]
    options: dict[str, Any] = field(default_factory=dict)


# Values. Hypothesis draws only a seed, so that large arrays cost as little as small ones.


def normal(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.normal(0, 1.5, shape)


def positive(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(0.3, 3, shape)


def nonzero(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)


def no_ties(rng: np.random.Generator, shape: Shape) -> Array:
    """Keep each value 0.02 from every other and 0.01 from zero, so that no small step crosses a kink."""
    size = math.prod(shape)
    result: Array = ((rng.permutation(size) - size // 2 + 0.5) * 0.02).reshape(shape)
    return result


def values(draw: DrawFn, domain: Values, *shapes: Shape) -> tuple[Array, ...]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return tuple(np.asarray(domain(rng, shape)) for shape in shapes)


# Shapes.

COUNTS = st.integers(0, 5)


def shapes(min_dims: int = 0) -> SearchStrategy[Shape]:
    """Draw shapes of 0 to 3 axes, with sizes 0 and 1 among them, and 17 to exceed the kernels' sixteen lanes."""
    drawn = st.lists(st.sampled_from([2, 3, 1, 0, 5, 17]), min_size=min_dims, max_size=3).map(tuple)
    return drawn.filter(lambda shape: math.prod(shape) <= 300)  # more elements would only blur the differences


@st.composite
def sequences(draw: DrawFn, longest: int = 5) -> Array:
    """Draw the offsets of up to three packed sequences, some empty."""
    lengths = draw(st.lists(st.integers(0, longest), max_size=3))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@st.composite
def layouts(draw: DrawFn) -> tuple[Array, Array]:
    """Draw offsets of packed sequences and their key ranges: the same rows, or with older keys and with gaps."""
    offsets = draw(sequences(longest=6))
    if not draw(st.booleans()):
        return offsets, np.stack([offsets[:-1], offsets[1:]], axis=1)
    ranges, first = [], 0
    for length in np.diff(offsets):
        first += draw(st.integers(0, 2))  # key rows that belong to no sequence
        last = first + length + draw(st.integers(0, 3))
        ranges.append((first, last))
        first = last
    return offsets, np.array(ranges, np.int64).reshape(-1, 2)


@st.composite
def heads(draw: DrawFn) -> tuple[int, int, int]:
    """Draw (query heads, key/value heads, head size)."""
    groups, per_group, size = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 5]))
    return groups * per_group, groups, size


# Families of operations with the same kind of arguments.


@st.composite
def elementwise(draw: DrawFn, domain: Values, count: int, min_dims: int, options: Any) -> Case:
    """Draw `count` arrays of one shape."""
    arrays = values(draw, domain, *[draw(shapes(min_dims))] * count)
    return Case(arrays, draw(st.fixed_dictionaries(options)))


@st.composite
def broadcast(draw: DrawFn, domain: Values) -> Case:
    """Draw two arrays that broadcast against each other."""
    drawn = hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=4, max_dims=3)
    return Case(values(draw, domain, *draw(drawn).input_shapes))


@st.composite
def along_one_axis(draw: DrawFn) -> Case:
    """Draw an array and one of its axes."""
    shape = draw(shapes(min_dims=1))
    return Case(values(draw, normal, shape), {"axis": draw(st.integers(-len(shape), len(shape) - 1))})


@st.composite
def reduction(draw: DrawFn, domain: Values, empty: bool) -> Case:
    """Draw an array and any of its axes; with `empty`, also axes of size 0."""
    shape = draw(shapes())
    allowed = [axis for axis, size in enumerate(shape) if size or empty]
    choices = [st.none()] if len(allowed) == len(shape) else []
    if allowed:
        choices.append(st.sampled_from(allowed + [axis - len(shape) for axis in allowed]))
    axes = st.lists(st.sampled_from(allowed), unique=True) if allowed else st.just([])
    axis = draw(st.one_of(*choices, axes.map(tuple)))
    return Case(values(draw, domain, shape), {"axis": axis, "keepdims": draw(st.booleans())})


@st.composite
def norm(draw: DrawFn, vectors: int) -> Case:
    """Draw rows and `vectors` vectors with one learned value per column."""
    shape = (*draw(shapes())[:2], draw(st.sampled_from([3, 1, 2, 17])))
    arrays = values(draw, normal, shape, *[shape[-1:]] * vectors)
    # Two or three values that happen to be nearly equal have next to no variance. Dividing by it is ill-conditioned, in
    # float32 beyond any tolerance. A larger eps avoids that for short rows.
    return Case(arrays, {"eps": draw(st.sampled_from([1e-5, 1e-2] if shape[-1] > 3 else [1e-2, 1e-1]))})


# Operations with arguments of their own.


@st.composite
def power(draw: DrawFn) -> Case:
    exponent = draw(st.sampled_from([2, 0, 1, -1, 3, 0.5, -1.5]))
    domain = nonzero if isinstance(exponent, int) else positive
    return Case(values(draw, domain, draw(shapes())), {"exponent": exponent})


@st.composite
def matmul(draw: DrawFn) -> Case:
    drawn = hnp.mutually_broadcastable_shapes(signature="(m?,n),(n,p?)->(m?,p?)", min_side=0, max_side=4, max_dims=2)
    return Case(values(draw, normal, *draw(drawn).input_shapes))


@st.composite
def linear(draw: DrawFn) -> Case:
    shape, outputs, inputs_first = draw(shapes(min_dims=1)), draw(st.integers(0, 4)), draw(st.booleans())
    weight, bias = (shape[-1], outputs) if inputs_first else (outputs, shape[-1]), [(outputs,)] * draw(st.booleans())
    return Case(values(draw, normal, shape, weight, *bias), {"inputs_first": inputs_first})


@st.composite
def embedding(draw: DrawFn) -> Case:
    rows, width = draw(st.integers(1, 4)), draw(st.integers(0, 4))
    ids = draw(hnp.arrays(np.int64, shapes().map(lambda s: s[:2]), elements=st.integers(0, rows - 1)))
    return Case((*values(draw, normal, (rows, width)), ids))


@st.composite
def combine_experts(draw: DrawFn) -> Case:
    rows, each, width = draw(st.integers(0, 5)), draw(st.integers(1, 3)), draw(st.sampled_from([2, 3, 1, 0, 17]))
    arrays = values(draw, normal, (rows * each, width), (rows, each))
    places = np.random.default_rng(draw(st.integers(0, 99))).permutation(rows * each).reshape(rows, each)
    return Case(arrays, {"places": places})


@st.composite
def swiglu_linear(draw: DrawFn) -> Case:
    lead, width, out = draw(shapes().map(lambda s: s[:2])), draw(st.integers(0, 4)), draw(st.integers(0, 3))
    return Case(values(draw, normal, (*lead, width), (*lead, width), (out, width)))


@st.composite
def cross_entropy(draw: DrawFn) -> Case:
    classes = draw(st.sampled_from([3, 1, 2, 17]))
    wanted = st.sampled_from([-100, *range(classes)])
    targets = draw(hnp.arrays(np.int64, shapes().map(lambda s: s[:2]), elements=wanted))
    return Case((*values(draw, normal, (*targets.shape, classes)), targets))


@st.composite
def linear_losses(draw: DrawFn) -> Case:
    rows, width, classes = (draw(st.sampled_from([1, 2, 3, 5])) for _ in range(3))
    rows = draw(st.sampled_from([rows, 0]))
    targets = draw(hnp.arrays(np.int64, (rows,), elements=st.sampled_from([-100, *range(classes)])))
    return Case((*values(draw, normal, (rows, width), (classes, width)), targets))


@st.composite
def linear_cross_entropy(draw: DrawFn) -> Case:
    case = draw(linear_losses())
    row_weights = values(draw, normal, case.arrays[2].shape) if draw(st.booleans()) else ()
    return Case((*case.arrays, *row_weights))


@st.composite
def linear_distillation(draw: DrawFn) -> Case:
    case, width = draw(linear_losses()), draw(st.integers(1, 3))
    rows, classes = len(case.arrays[0]), len(case.arrays[1])
    how = draw(st.sampled_from([(1.0, 0.5, False), (2.0, 1.0, False), (1.5, 0.25, True), (1.0, 0.0, True)]))
    teaching = TeacherOutputs(*values(draw, normal, (rows, width), (classes, width)), *how)
    if not draw(st.booleans()):
        return Case(case.arrays, {"teaching": teaching})
    shares = draw(hnp.arrays(np.float64, rows, elements=st.sampled_from([0.0, 0.5, 1.0])))
    row_weights = values(draw, normal, case.arrays[2].shape)
    return Case((*case.arrays, *row_weights), {"teaching": teaching._replace(share=shares)})


@st.composite
def prefix_mean(draw: DrawFn) -> Case:
    offsets, width = draw(sequences()), draw(st.integers(0, 3))
    x, carried = values(draw, normal, (int(offsets[-1]), width), (len(offsets) - 1, width))
    if draw(st.booleans()):
        return Case((x,), {"offsets": offsets})
    counts = np.array([draw(COUNTS) for _ in offsets[1:]], np.int64)
    return Case((x,), {"offsets": offsets, "carried": carried, "counts": counts})


@st.composite
def key_shift(draw: DrawFn) -> Case:
    offsets, heads, half = draw(sequences()), draw(st.integers(0, 2)), draw(st.integers(1, 4))
    return Case(values(draw, normal, (int(offsets[-1]), heads, 2 * half)), {"offsets": offsets})


@st.composite
def rotary(draw: DrawFn) -> Case:
    rows, num_heads, half = draw(st.integers(0, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    angles = values(draw, normal, (5, half))[0]
    positions = draw(hnp.arrays(np.int64, rows, elements=st.integers(0, 4)))
    options = {"cosine": np.cos(angles), "sine": np.sin(angles), "positions": positions}
    options["interleaved"] = draw(st.booleans())
    return Case(values(draw, normal, (rows, num_heads, 2 * half)), options)


@st.composite
def reshape(draw: DrawFn) -> Case:
    shape = draw(shapes())
    target = draw(st.sampled_from([(-1,), shape[::-1], (1, *shape), (*shape, 1), (math.prod(shape),)]))
    return Case(values(draw, normal, shape), {"shape": target})


@st.composite
def transpose(draw: DrawFn) -> Case:
    shape = draw(shapes())
    axes = st.permutations([axis - draw(st.sampled_from([0, len(shape)])) for axis in range(len(shape))])
    return Case(values(draw, normal, shape), {"axes": draw(st.none() | axes.map(tuple))})


@st.composite
def slicing(draw: DrawFn) -> Case:
    shape = draw(shapes())
    kinds = [hnp.basic_indices(shape, allow_newaxis=True)]
    if shape:
        kinds.append(hnp.arrays(bool, shape))
    if shape and all(shape):
        kinds.append(hnp.integer_array_indices(shape))
    return Case(values(draw, normal, shape), {"index": draw(st.one_of(*kinds))})


@st.composite
def concatenate(draw: DrawFn) -> Case:
    shape = draw(shapes(min_dims=1))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    parts = [(*shape[: axis % len(shape)], length, *shape[axis % len(shape) + 1 :]) for length in lengths]
    return Case(values(draw, normal, *parts), {"axis": axis})


@st.composite
def stack(draw: DrawFn) -> Case:
    shape, count = draw(shapes()), draw(st.integers(1, 3))
    return Case(values(draw, normal, *[shape] * count), {"axis": draw(st.integers(-len(shape) - 1, len(shape)))})


@st.composite
def where(draw: DrawFn) -> Case:
    drawn = hnp.mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_side=4, max_dims=3)
    chosen, *others = draw(drawn).input_shapes
    return Case((draw(hnp.arrays(bool, chosen)), *values(draw, normal, *others)))
