"""One table of every operation: what it may be given, and what plain NumPy says it gives.

`tests/ops/test_table.py` drives the checks of `tests/op_checks.py` through the whole table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from minigrad.random import philox_key
from tests.kernels.attention.twins import attention, causal, heads, layouts, mask_of, probabilities, scores_of
from tests.kernels.rowwise.draw_twins import philox
from tests.kernels.rowwise.twins import gelu, gelu_tanh
from tests.kernels.sequence.twins import context_attention, sequences

Array = NDArray[Any]
Shape = tuple[int, ...]
Values = Callable[[np.random.Generator, Shape], Array]


@dataclass(frozen=True)
class Case:
    """One call: arrays by position (float64 and whole numbers), options by name."""

    arrays: tuple[Array, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """What an operation may be given, and the same in NumPy."""

    cases: SearchStrategy[Case]
    reference: Callable[..., Any]
    keeps_dtype: bool = True


# Domains of values. Hypothesis chooses only a seed, so that large arrays cost as little as small ones.


def normal(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.normal(0, 1.5, shape)


def positive(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(0.3, 3, shape)


def nonzero(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)


def no_ties(rng: np.random.Generator, shape: Shape) -> Array:
    """Keep every number 0.02 from every other and 0.01 from zero, so that no small step crosses a bend."""
    size = math.prod(shape)
    result: Array = ((rng.permutation(size) - size // 2 + 0.5) * 0.02).reshape(shape)
    return result


def numbers(draw: DrawFn, values: Values, *shapes: Shape) -> tuple[Array, ...]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return tuple(np.asarray(values(rng, shape)) for shape in shapes)


def shapes(min_dims: int = 0, min_side: int = 0) -> SearchStrategy[Shape]:
    """Draw shapes of 0 to 3 axes, with sizes 0 and 1 among them, and 17 to cross the kernels' sixteen lanes."""
    sides = st.sampled_from([side for side in (2, 3, 1, 0, 5, 17) if side >= min_side])
    drawn = st.lists(sides, min_size=min_dims, max_size=3).map(tuple)
    return drawn.filter(lambda shape: math.prod(shape) <= 300)  # more would only blur the differences


# Families of operations that take the same kind of arguments.


def elementwise(
    reference: Callable[..., Any],
    values: Values = normal,
    count: int = 1,
    min_dims: int = 0,
    keeps_dtype: bool = True,
    **options: SearchStrategy[Any],
) -> Row:
    """Make a row for a function of `count` arrays of one shape."""

    @st.composite
    def cases(draw: DrawFn) -> Case:
        arrays = numbers(draw, values, *[draw(shapes(min_dims))] * count)
        return Case(arrays, draw(st.fixed_dictionaries(options)))

    return Row(cases(), reference, keeps_dtype)


def broadcast(reference: Callable[..., Any], values: Values = normal) -> Row:
    """Make a row for a function of two arrays that broadcast against each other."""

    @st.composite
    def cases(draw: DrawFn) -> Case:
        drawn = hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=4, max_dims=3)
        return Case(numbers(draw, values, *draw(drawn).input_shapes))

    return Row(cases(), reference)


def along_one_axis(reference: Callable[..., Any]) -> Row:
    """Make a row for a function along an axis of size 1 or more, such as softmax."""

    @st.composite
    def cases(draw: DrawFn) -> Case:
        shape = draw(shapes(min_dims=1))
        return Case(numbers(draw, normal, shape), {"axis": draw(st.integers(-len(shape), len(shape) - 1))})

    return Row(cases(), reference)


def reduction(reference: Callable[..., Any], values: Values = normal, empty: bool = False) -> Row:
    """Make a row for a reduction over any axes; `empty` tells whether it may reduce no numbers at all."""

    @st.composite
    def cases(draw: DrawFn) -> Case:
        shape = draw(shapes())
        allowed = [axis for axis, size in enumerate(shape) if size or empty]
        choices = [st.none()] if len(allowed) == len(shape) else []
        if allowed:
            choices.append(st.sampled_from(allowed + [axis - len(shape) for axis in allowed]))
        axes = st.lists(st.sampled_from(allowed), unique=True) if allowed else st.just([])
        axis = draw(st.one_of(*choices, axes.map(tuple)))
        return Case(numbers(draw, values, shape), {"axis": axis, "keepdims": draw(st.booleans())})

    return Row(cases(), reference)


def norm(reference: Callable[..., Any], vectors: int) -> Row:
    """Make a row for a normalisation of rows with `vectors` learned numbers per column."""

    @st.composite
    def cases(draw: DrawFn) -> Case:
        shape = (*draw(shapes())[:2], draw(st.sampled_from([3, 1, 2, 17])))
        arrays = numbers(draw, normal, shape, *[shape[-1:]] * vectors)
        # Two or three numbers that happen to be nearly equal have next to no spread; what is divided by that is
        # ill-conditioned, in float32 beyond any tolerance. A larger eps keeps short rows away from there.
        return Case(arrays, {"eps": draw(st.sampled_from([1e-5, 1e-2] if shape[-1] > 3 else [1e-2, 1e-1]))})

    return Row(cases(), reference)


# Operations that need arguments of their own.

_COUNTS = st.integers(0, 5)


@st.composite
def _power(draw: DrawFn) -> Case:
    exponent = draw(st.sampled_from([2, 0, 1, -1, 3, 0.5, -1.5]))
    values = nonzero if isinstance(exponent, int) else positive
    return Case(numbers(draw, values, draw(shapes())), {"exponent": exponent})


@st.composite
def _matmul(draw: DrawFn) -> Case:
    signature = "(m?,n),(n,p?)->(m?,p?)"
    drawn = hnp.mutually_broadcastable_shapes(signature=signature, min_side=0, max_side=4, max_dims=2)
    return Case(numbers(draw, normal, *draw(drawn).input_shapes))


@st.composite
def _linear(draw: DrawFn) -> Case:
    shape = draw(shapes(min_dims=1))
    return Case(numbers(draw, normal, shape, (draw(st.integers(0, 4)), shape[-1])))


@st.composite
def _embedding(draw: DrawFn) -> Case:
    rows, width = draw(st.integers(1, 4)), draw(st.integers(0, 4))
    ids = draw(hnp.arrays(np.int64, shapes().map(lambda s: s[:2]), elements=st.integers(0, rows - 1)))
    return Case((*numbers(draw, normal, (rows, width)), ids))


@st.composite
def _swiglu_linear(draw: DrawFn) -> Case:
    lead, width, out = draw(shapes().map(lambda s: s[:2])), draw(st.integers(0, 4)), draw(st.integers(0, 3))
    return Case(numbers(draw, normal, (*lead, width), (*lead, width), (out, width)))


@st.composite
def _cross_entropy(draw: DrawFn) -> Case:
    classes = draw(st.sampled_from([3, 1, 2, 17]))
    wanted = st.sampled_from([-100, *range(classes)])
    targets = draw(hnp.arrays(np.int64, shapes().map(lambda s: s[:2]), elements=wanted))
    return Case((*numbers(draw, normal, (*targets.shape, classes)), targets))


@st.composite
def _linear_cross_entropy(draw: DrawFn) -> Case:
    rows, width, classes = (draw(st.sampled_from([1, 2, 3, 5])) for _ in range(3))
    rows = draw(st.sampled_from([rows, 0]))
    targets = draw(hnp.arrays(np.int64, (rows,), elements=st.sampled_from([-100, *range(classes)])))
    return Case((*numbers(draw, normal, (rows, width), (classes, width)), targets))


@st.composite
def _attention(draw: DrawFn) -> Case:
    (offsets, ranges), (num_heads, groups, size) = draw(layouts()), draw(heads())
    own_keys = (ranges == np.stack([offsets[:-1], offsets[1:]], axis=1)).all()
    key_rows = int(offsets[-1]) if own_keys else int(ranges.max()) + draw(st.integers(0, 2))
    keys = (key_rows, groups, size)
    arrays = numbers(draw, normal, (int(offsets[-1]), num_heads, size), keys, keys)
    options: dict[str, Any] = {"offsets": offsets, "key_ranges": None if own_keys else ranges}
    if draw(st.booleans()):
        options["visible"] = _rising(draw, offsets, ranges)
    if draw(st.booleans()):
        options |= {"dropout": 0.4, "seed": draw(_COUNTS), "step": draw(_COUNTS), "index": draw(_COUNTS)}
    return Case(arrays, options)


def _rising(draw: DrawFn, offsets: Array, ranges: Array) -> Array:
    """Draw how many keys each row sees: any numbers that rise within a sequence, 0 among them."""
    visible = causal(offsets, ranges)
    for a, b, (first, last) in zip(offsets[:-1], offsets[1:], ranges, strict=True):
        visible[a:b] = sorted(draw(st.integers(0, last - first)) for _ in range(b - a))
    return visible


@st.composite
def _attention_with_own_key(draw: DrawFn) -> Case:
    (offsets, ranges), (num_heads, groups, size) = draw(layouts()), draw(heads())
    rows, keys = int(offsets[-1]), (int(ranges.max(initial=0)) + 1, groups, size)
    own = (rows, groups, size)
    arrays = numbers(draw, normal, (rows, num_heads, size), keys, keys, own, own)
    visible = _rising(draw, offsets, ranges)
    has_own = draw(hnp.arrays(bool, rows)) | (visible == 0)
    return Case(arrays, {"offsets": offsets, "key_ranges": ranges, "visible": visible, "has_own": has_own})


@st.composite
def _context_attention(draw: DrawFn) -> Case:
    (num_heads, groups, size), rows, count = draw(heads()), draw(st.integers(0, 4)), draw(st.integers(1, 3))
    keys = (rows, count, groups, size)
    return Case(numbers(draw, normal, (rows, num_heads, size), keys, keys))


@st.composite
def _prefix_mean(draw: DrawFn) -> Case:
    offsets, width = draw(sequences()), draw(st.integers(0, 3))
    x, carried = numbers(draw, normal, (int(offsets[-1]), width), (len(offsets) - 1, width))
    options: dict[str, Any] = {"offsets": offsets}
    if draw(st.booleans()):
        counts = np.array([draw(_COUNTS) for _ in offsets[1:]], np.int64)
        options |= {"carried": carried, "counts": counts}
    return Case((x,), options)


@st.composite
def _rotary(draw: DrawFn) -> Case:
    rows, num_heads, half = draw(st.integers(0, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    angles = numbers(draw, normal, (5, half))[0]
    positions = draw(hnp.arrays(np.int64, rows, elements=st.integers(0, 4)))
    options = {"cosine": np.cos(angles), "sine": np.sin(angles), "positions": positions}
    options["interleaved"] = draw(st.booleans())
    return Case(numbers(draw, normal, (rows, num_heads, 2 * half)), options)


@st.composite
def _reshape(draw: DrawFn) -> Case:
    shape = draw(shapes())
    target = draw(st.sampled_from([(-1,), shape[::-1], (1, *shape), (*shape, 1), (math.prod(shape),)]))
    return Case(numbers(draw, normal, shape), {"shape": target})


@st.composite
def _transpose(draw: DrawFn) -> Case:
    shape = draw(shapes())
    axes = st.permutations([axis - draw(st.sampled_from([0, len(shape)])) for axis in range(len(shape))])
    return Case(numbers(draw, normal, shape), {"axes": draw(st.none() | axes.map(tuple))})


@st.composite
def _slice(draw: DrawFn) -> Case:
    shape = draw(shapes())
    kinds = [hnp.basic_indices(shape, allow_newaxis=True)]
    if shape:
        kinds.append(hnp.arrays(bool, shape))
    if shape and all(shape):
        kinds.append(hnp.integer_array_indices(shape))
    return Case(numbers(draw, normal, shape), {"index": draw(st.one_of(*kinds))})


@st.composite
def _concatenate(draw: DrawFn) -> Case:
    shape = draw(shapes(min_dims=1))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for length in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)):
        part = list(shape)
        part[axis] = length
        parts.append(tuple(part))
    return Case(numbers(draw, normal, *parts), {"axis": axis})


@st.composite
def _stack(draw: DrawFn) -> Case:
    shape, count = draw(shapes()), draw(st.integers(1, 3))
    return Case(numbers(draw, normal, *[shape] * count), {"axis": draw(st.integers(-len(shape) - 1, len(shape)))})


@st.composite
def _where(draw: DrawFn) -> Case:
    drawn = hnp.mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_side=4, max_dims=3)
    chosen, *others = draw(drawn).input_shapes
    return Case((draw(hnp.arrays(bool, chosen)), *numbers(draw, normal, *others)))


# What the operations compute, in NumPy.


def _softmax(x: Array, axis: int) -> Array:
    e = np.exp(x)
    result: Array = e / e.sum(axis=axis, keepdims=True)
    return result


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _rms_norm(x: Array, weight: Array, eps: float) -> Array:
    result: Array = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight
    return result


def _layer_norm(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    result: Array = centred / np.sqrt(x.var(axis=-1, keepdims=True) + eps) * weight + bias
    return result


def _cross_entropy_reference(logits: Array, targets: Array) -> float:
    real = targets != -100
    chances = np.take_along_axis(_softmax(logits, -1), np.where(real, targets, 0)[..., None], -1)[..., 0]
    return float(-np.log(chances[real]).sum() / max(real.sum(), 1))


def _attention_reference(
    q: Array,
    k: Array,
    v: Array,
    offsets: Array,
    key_ranges: Array | None = None,
    visible: Array | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    step: int = 0,
    index: int = 0,
) -> Array:
    ranges = np.stack([offsets[:-1], offsets[1:]], axis=1) if key_ranges is None else key_ranges
    seen, scale = causal(offsets, ranges) if visible is None else visible, 1 / math.sqrt(q.shape[2])
    if not dropout:
        return attention(q, k, v, offsets, ranges, scale, seen)
    key, out, group = philox_key(seed, "attention dropout"), np.zeros_like(q), q.shape[1] // k.shape[1]
    words = np.array([key & 0xFFFFFFFF, key >> 32, step, index], np.uint64)
    for s in range(len(ranges)):
        rows, keys = slice(int(offsets[s]), int(offsets[s + 1])), slice(*ranges[s])
        for h in range(q.shape[1]):
            p = probabilities(scores_of(q[rows, h], k[keys, h // group], seen[rows], scale))
            mask = mask_of(rows, h, q.shape[1], p.shape[1], words, round(dropout * 2**32), 1 / (1 - dropout))
            out[rows, h] = (p * mask) @ v[keys, h // group]
    return out


def _own_key_reference(
    q: Array,
    k: Array,
    v: Array,
    own_k: Array,
    own_v: Array,
    offsets: Array,
    key_ranges: Array,
    visible: Array,
    has_own: Array,
) -> Array:
    out, group = np.zeros_like(q), q.shape[1] // k.shape[1]
    for s in range(len(key_ranges)):
        for r in range(offsets[s], offsets[s + 1]):
            seen = slice(key_ranges[s, 0], key_ranges[s, 0] + visible[r])
            own = slice(r, r + int(has_own[r]))
            keys, values = np.concatenate([k[seen], own_k[own]]), np.concatenate([v[seen], own_v[own]])
            for h in range(q.shape[1]):
                out[r, h] = _softmax(keys[:, h // group] @ q[r, h] / math.sqrt(q.shape[2]), -1) @ values[:, h // group]
    return out


def _prefix_mean_reference(
    x: Array, offsets: Array, carried: Array | None = None, counts: Array | None = None
) -> Array:
    y = np.zeros_like(x)
    for s, (a, b) in enumerate(itertools.pairwise(offsets)):
        before, number = (0, 0) if carried is None or counts is None else (carried[s], counts[s])
        y[a:b] = (before + np.cumsum(x[a:b], axis=0)) / (number + np.arange(1, b - a + 1))[:, None]
    return y


def _rotary_reference(x: Array, cosine: Array, sine: Array, positions: Array, interleaved: bool) -> Array:
    half = x.shape[2] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = (a + 1j * b) * (cosine + 1j * sine)[positions][:, None]
    if interleaved:
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def dropout_mask(shape: Shape, probability: float, seed: int, step: int, index: int) -> Array:
    """Return which numbers dropout keeps, drawn with a second Philox."""
    size, key = math.prod(shape), philox_key(seed, "dropout")
    words = philox(np.arange(-(-size // 4)), (step, index), (key & 0xFFFFFFFF, key >> 32))
    result: Array = (words.reshape(-1)[:size] >= round(probability * 2**32)).reshape(shape)
    return result


def _dropout(x: Array, probability: float, seed: int, step: int, index: int) -> Array:
    return np.where(dropout_mask(x.shape, probability, seed, step, index), x / (1 - probability), 0)


TABLE: dict[str, Row] = {
    "add": broadcast(np.add),
    "astype": elementwise(lambda x, dtype: x.astype(dtype), keeps_dtype=False, dtype=st.just("float64")),
    "attention": Row(_attention(), _attention_reference),
    "attention_with_own_key": Row(_attention_with_own_key(), _own_key_reference),
    "blend": elementwise(lambda a, b, gate: _sigmoid(gate) * a + (1 - _sigmoid(gate)) * b, count=3, min_dims=1),
    "concatenate": Row(_concatenate(), lambda *parts, axis: np.concatenate(parts, axis)),
    "context_attention": Row(
        _context_attention(), lambda q, k, v: context_attention(q, k, v, 1 / math.sqrt(q.shape[2]))[0]
    ),
    "linear_cross_entropy": Row(
        _linear_cross_entropy(), lambda x, weight, targets: _cross_entropy_reference(x @ weight.T, targets)
    ),
    "cross_entropy": Row(_cross_entropy(), _cross_entropy_reference),
    "divide": broadcast(np.divide, nonzero),
    "dropout": elementwise(
        _dropout, probability=st.sampled_from([0.25, 0.0, 0.9]), seed=_COUNTS, step=_COUNTS, index=_COUNTS
    ),
    "embedding": Row(_embedding(), lambda weight, ids: weight[ids]),
    "exp": elementwise(np.exp),
    "gelu": elementwise(
        lambda x, approximate: gelu(x) if approximate == "none" else gelu_tanh(x),
        approximate=st.sampled_from(["none", "tanh"]),
    ),
    "layer_norm": norm(_layer_norm, vectors=2),
    "linear": Row(_linear(), lambda x, weight: x @ weight.T),
    "log": elementwise(np.log, positive),
    "log_softmax": along_one_axis(lambda x, axis: np.log(_softmax(x, axis))),
    "logsumexp": reduction(lambda x, **options: np.log(np.exp(x).sum(**options))),
    "matmul": Row(_matmul(), np.matmul),
    "max": reduction(np.max, no_ties),
    "mean": reduction(np.mean),
    "multiply": broadcast(np.multiply),
    "negative": elementwise(np.negative),
    "offset_rms_norm": norm(lambda x, weight, offset, eps: _rms_norm(x + offset, weight, eps), vectors=2),
    "power": Row(_power(), lambda x, exponent: np.power(x, float(exponent))),
    "relu": elementwise(lambda x: np.maximum(x, 0), no_ties),
    "prefix_mean": Row(_prefix_mean(), _prefix_mean_reference),
    "reshape": Row(_reshape(), lambda x, shape: x.reshape(shape)),
    "rms_norm": norm(_rms_norm, vectors=1),
    "rotary": Row(_rotary(), _rotary_reference),
    "sigmoid": elementwise(_sigmoid),
    "sigmoid_gate": elementwise(lambda x, gate: x * _sigmoid(gate), count=2, min_dims=1),
    "silu": elementwise(lambda x: x * _sigmoid(x)),
    "slice": Row(_slice(), lambda x, index: x[index]),
    "softmax": along_one_axis(_softmax),
    "sqrt": elementwise(np.sqrt, positive),
    "stack": Row(_stack(), lambda *parts, axis: np.stack(parts, axis)),
    "subtract": broadcast(np.subtract),
    "sum": reduction(np.sum, empty=True),
    "swiglu_linear": Row(_swiglu_linear(), lambda gate, up, weight: (gate * _sigmoid(gate) * up) @ weight.T),
    "swiglu": elementwise(lambda gate, up: gate * _sigmoid(gate) * up, count=2, min_dims=1),
    "tanh": elementwise(np.tanh),
    "transpose": Row(_transpose(), lambda x, axes: np.transpose(x, axes)),
    "where": Row(_where(), np.where),
}
