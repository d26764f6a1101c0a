"""The keys that each query of packed sequences sees: the default, and the checked plan of every form of attention."""

from __future__ import annotations

import math

import numpy as np

from minigrad.errors import ShapeError
from minigrad.kernels.attention.plan import Plan
from minigrad.ops.sequences import checked_integers, checked_offsets
from minigrad.typing import Array


def causal_visible(offsets: Array, key_ranges: Array | None = None) -> Array:
    """Return the number of keys that each query row sees if the newest keys of a sequence belong to its queries.

    Shapes: offsets (S + 1,), key_ranges (S, 2) -> (rows,).

    >>> causal_visible(np.array([0, 3, 5])).tolist()
    [1, 2, 3, 1, 2]
    """
    lengths = offsets[1:] - offsets[:-1]
    num_keys = lengths if key_ranges is None else key_ranges[:, 1] - key_ranges[:, 0]
    seen: Array = np.arange(1, offsets[-1] + 1) + np.repeat(num_keys - offsets[1:], lengths)
    return seen


def plan_of(
    q: Array,
    k: Array,
    v: Array,
    offsets: Array,
    key_ranges: Array | None,
    visible: Array | None = None,
    first_visible: Array | None = None,
) -> Plan:
    """Check the arguments of attention; return its plan: the keys that each row sees, and the scale 1 / sqrt(D)."""
    if q.ndim != 3 or k.shape != v.shape or k.ndim != 3 or k.shape[2] != q.shape[2] or not q.shape[2]:
        raise ShapeError(
            f"attention needs q (rows, H, D), k and v (key rows, G, D); got {q.shape}, {k.shape}, {v.shape}"
        )
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ShapeError(f"{q.shape[1]} query heads cannot share {k.shape[1]} key/value heads evenly")
    starts = checked_offsets("attention", q, offsets)
    lengths = starts[1:] - starts[:-1]
    ranges = np.stack([starts[:-1], starts[1:]], axis=1) if key_ranges is None else key_ranges
    ranges = checked_integers("key ranges of attention", ranges)
    if ranges.shape != (len(starts) - 1, 2) or (ranges[:, 0] < 0).any() or (ranges[:, 1] > len(k)).any():
        raise ShapeError(f"attention key ranges must lie within {len(k)} key rows, one pair per sequence; got {ranges}")
    if key_ranges is not None:
        used = ranges[ranges[:, 0] < ranges[:, 1]]
        used = used[np.argsort(used[:, 0])]
        if (used[1:, 0] < used[:-1, 1]).any():
            raise ShapeError(f"attention key ranges must not overlap, or their gradients would mix; got {ranges}")
    num_keys = ranges[:, 1] - ranges[:, 0]
    if visible is not None:
        seen = checked_integers("visible", visible)
        _check_bound("visible", seen, starts, np.repeat(num_keys, lengths))
    elif (num_keys < lengths).any():
        raise ShapeError("attention needs at least one key per query, because every token sees itself")
    else:
        seen = causal_visible(starts, ranges)
    if first_visible is not None:
        first_visible = checked_integers("first_visible", first_visible)
        _check_bound("first_visible", first_visible, starts, seen)
    return Plan(starts, ranges, seen, scale=1 / math.sqrt(q.shape[2]), first_visible=first_visible)


def _check_bound(name: str, bound: Array, offsets: Array, most: Array) -> None:
    """Check numbers of keys, one for each row: from 0 to `most` (rows,), and not decreasing within a sequence."""
    if bound.shape != most.shape or (bound < 0).any() or (bound > most).any():
        limit = "the keys of its sequence" if name == "visible" else "the keys up to the last that it sees"
        raise ShapeError(f"{name} needs a number of keys for each row, from 0 to {limit}; got {bound}")
    rows, starts = len(bound), offsets[1:-1]
    inside = np.delete(np.arange(1, rows), starts[(starts > 0) & (starts < rows)] - 1)  # rows that begin no sequence
    if (bound[inside] < bound[inside - 1]).any():
        raise ShapeError(f"{name} must not decrease within a sequence; got {bound}")
