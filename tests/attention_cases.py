"""Hypothesis strategies for the arguments of attention in its forms: sequences, the keys that each row sees, heads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import DrawFn

from minigrad.ops.joined_attention import SeenKeys
from minigrad.ops.visible_keys import causal_visible
from models.vsla.operations.far_keys import SeenFarKeys
from tests.op_cases import COUNTS, Array, Case, heads, layouts, normal, sequences, values


def visible_keys(draw: DrawFn, offsets: Array, ranges: Array) -> Array:
    """Draw how many keys each row sees: numbers that do not decrease within a sequence, 0 among them."""
    visible = np.zeros(int(offsets[-1]), np.int64)
    for a, b, (first, last) in zip(offsets[:-1], offsets[1:], ranges, strict=True):
        visible[a:b] = sorted(draw(st.integers(0, last - first)) for _ in range(b - a))
    return visible


def rising(draw: DrawFn, offsets: Array, most: Array) -> Array:
    """Draw numbers from 0 to `most`, which does not decrease within a sequence, that do not decrease either."""
    found = np.zeros(len(most), np.int64)
    for a, b in itertools.pairwise(offsets):
        found[a:b] = sorted(draw(st.integers(0, 5)) for _ in range(b - a))
    return np.minimum(found, most)


@st.composite
def attention(draw: DrawFn) -> Case:
    (offsets, ranges), (num_heads, groups, size) = draw(layouts()), draw(heads())
    own_rows = (ranges == np.stack([offsets[:-1], offsets[1:]], axis=1)).all()
    key_rows = int(offsets[-1]) if own_rows else int(ranges.max()) + draw(st.integers(0, 2))
    keys = (key_rows, groups, size)
    arrays = values(draw, normal, (int(offsets[-1]), num_heads, size), keys, keys)
    options: dict[str, Any] = {"offsets": offsets, "key_ranges": None if own_rows else ranges}
    if draw(st.booleans()):
        options["visible"] = visible_keys(draw, offsets, ranges)
    if draw(st.booleans()):
        visible = options["visible"] if "visible" in options else causal_visible(offsets, ranges)
        options["first_visible"] = rising(draw, offsets, visible)
    if draw(st.booleans()):
        options |= {"dropout": 0.4} | {name: draw(COUNTS) for name in ("seed", "step", "index", "first_row")}
    return Case(arrays, options)


@st.composite
def attention_with_own_key(draw: DrawFn) -> Case:
    (offsets, ranges), (num_heads, groups, size) = draw(layouts()), draw(heads())
    rows, keys = int(offsets[-1]), (int(ranges.max(initial=0)) + 1, groups, size)
    own = (rows, groups, size)
    arrays = values(draw, normal, (rows, num_heads, size), keys, keys, own, own)
    visible = visible_keys(draw, offsets, ranges)
    first = draw(st.sampled_from([None, rising(draw, offsets, visible)]))
    has_own = draw(hnp.arrays(bool, rows)) | (visible == (0 if first is None else first))
    return Case(arrays, {"shared": SeenKeys(offsets, ranges, visible, first), "has_own": has_own})


@st.composite
def attention_with_far_keys(draw: DrawFn) -> Case:
    (offsets, ranges), (num_heads, groups, size) = draw(layouts()), draw(heads())
    rows, keys = int(offsets[-1]), (int(ranges.max(initial=0)) + 1, groups, size)
    counts = [draw(st.integers(0, 3)) for _ in offsets[1:]]
    ends = np.cumsum(counts, dtype=np.int64)
    arrays = values(draw, normal, (rows, num_heads, size), keys, keys, *[(int(sum(counts)), groups, size)] * 2)
    visible = visible_keys(draw, offsets, ranges)
    near = SeenKeys(offsets, ranges, visible, rising(draw, offsets, visible))
    far_visible = rising(draw, offsets, np.repeat(np.array(counts, np.int64), np.diff(offsets)))
    far = SeenFarKeys(
        np.stack([ends - np.array(counts, np.int64), ends], axis=1),
        np.where(draw(hnp.arrays(bool, rows)), far_visible, 0),  # some rows see near keys only
        weight=draw(st.sampled_from([1.0, 2.0, 16.0])),
    )
    return Case(arrays, {"near": near, "far": far})


@st.composite
def sparse_attention(draw: DrawFn) -> Case:
    (offsets, ranges), (num_heads, groups, size) = draw(layouts()), draw(heads())
    own_rows = (ranges == np.stack([offsets[:-1], offsets[1:]], axis=1)).all()
    keys = (int(offsets[-1]) if own_rows else int(ranges.max()) + draw(st.integers(0, 2)), groups, size)
    arrays = values(draw, normal, (int(offsets[-1]), num_heads, size), keys, keys)
    key_ranges = None if own_rows else ranges
    return Case(arrays, {"offsets": offsets, "key_ranges": key_ranges, "top_k": draw(st.sampled_from([1, 2, 3, 99]))})


@st.composite
def block_mean(draw: DrawFn) -> Case:
    offsets, width = draw(sequences()), draw(st.integers(0, 3))
    return Case(values(draw, normal, (int(offsets[-1]), width)), {"offsets": offsets, "block": draw(st.integers(1, 4))})


@st.composite
def context_attention(draw: DrawFn) -> Case:
    (num_heads, groups, size), rows, count = draw(heads()), draw(st.integers(0, 4)), draw(st.integers(1, 3))
    keys = (rows, count, groups, size)
    return Case(values(draw, normal, (rows, num_heads, size), keys, keys))
