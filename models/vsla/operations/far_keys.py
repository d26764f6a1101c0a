"""Attention to near keys one by one, and to far keys as the means of blocks of keys."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.autograd.profile import FLOPS
from minigrad.errors import ShapeError
from minigrad.kernels.attention.backward import attention_backward
from minigrad.kernels.attention.forward import attention_forward
from minigrad.kernels.attention.plan import Denominators
from minigrad.ops.attention import attention_flops
from minigrad.ops.joined_attention import SeenKeys, joined
from minigrad.ops.sequences import checked_offsets
from minigrad.ops.softmax import softmax_formula
from minigrad.ops.visible_keys import plan_of
from minigrad.options import checked_number
from minigrad.typing import Array


class SeenFarKeys(NamedTuple):
    """The far keys of each sequence, how many a row sees, and their weight.  Shapes: ranges (S, 2), visible (rows,)."""

    ranges: Array  # (S, 2): sequence s has the far rows ranges[s, 0]:ranges[s, 1]
    visible: Array  # (rows,): a row sees this many of them, from the first on
    weight: float


def attention_with_far_keys_formula(
    q: Array, k: Array, v: Array, far_k: Array, far_v: Array, *, near: SeenKeys, far: SeenFarKeys
) -> Array:
    """Compute `attention_with_far_keys` in plain NumPy: one softmax over the near and the far keys that a row sees."""
    group, out = q.shape[1] // k.shape[1], np.empty_like(q)
    first_visible = np.zeros(len(q), int) if near.first_visible is None else near.first_visible
    for s in range(len(near.offsets) - 1):
        first, first_far = near.key_ranges[s, 0], far.ranges[s, 0]
        for row in range(near.offsets[s], near.offsets[s + 1]):
            seen = slice(first + first_visible[row], first + near.visible[row])
            seen_far = slice(first_far, first_far + far.visible[row])
            keys = np.concatenate([k[seen], far_k[seen_far]]).repeat(group, axis=1)  # (keys, H, D)
            values = np.concatenate([v[seen], far_v[seen_far]]).repeat(group, axis=1)
            scores = np.einsum("hd,uhd->hu", q[row], keys) / math.sqrt(q.shape[2])
            scores[:, len(k[seen]) :] += math.log(far.weight)
            out[row] = np.einsum("hu,uhd->hd", softmax_formula(scores), values)
    return out


@op
def attention_with_far_keys(
    q: Array, k: Array, v: Array, far_k: Array, far_v: Array, *, near: SeenKeys, far: SeenFarKeys
) -> tuple[Array, Backward]:
    r"""Compute attention over near keys one by one and over far keys, where each far key represents several keys.

    Query row r sees the near keys from ``near.first_visible[r]`` to ``near.visible[r]`` of its sequence, as in
    `attention`, and the first ``far.visible[r]`` far keys of its sequence. Where this number is not 0, it must not
    decrease within the sequence. A far key stands for ``far.weight`` keys: the logarithm of that is added to its score,
    so that the mean of equal keys and values gets the probability that these would get together.
    Shapes: q (rows, H, D), k and v (key rows, G, D), far_k and far_v (far rows, G, D) -> (rows, H, D).
    Raises ShapeError if they do not fit, InputError unless the weight is from 1e-30 to 1e30.
    """
    checked_number("the weight of a far key", far.weight, at_least=1e-30, at_most=1e30)  # float32 holds their sums
    plan = plan_of(q, k, v, *near)
    if far.visible.shape != plan.visible.shape:
        raise ShapeError(f"far.visible needs a number of keys for each of {len(q)} rows; got {far.visible.shape}")
    rows = np.flatnonzero(far.visible)  # that see a far key
    queries, far_offsets = q[rows], np.searchsorted(rows, plan.offsets)
    far_plan = plan_of(queries, far_k, far_v, far_offsets, far.ranges, far.visible[rows])
    q, k, v = (np.ascontiguousarray(x) for x in (q, k, v))
    out, z = attention_forward(q, k, v, plan)
    far_out, (far_largest, far_total) = attention_forward(queries, far_k, far_v, far_plan)
    weight, near_z = q.dtype.type(far.weight), Denominators(z.largest[rows], z.total[rows])
    far_z = Denominators(far_largest, far_total * weight)
    out[rows], (z.largest[rows], z.total[rows]), _ = joined(out[rows], near_z, far_out, far_z, plan.scale)

    def backward(dy: Array) -> tuple[Array, ...]:
        # The far scores are s + ln(weight), so their probabilities are exp(s) / (Z / weight).
        dq, dk, dv = attention_backward(dy, q, k, v, out, z, plan)
        slopes, of_far = np.ascontiguousarray(dy[rows]), Denominators(z.largest[rows], z.total[rows] / weight)
        far_dq, dfar_k, dfar_v = attention_backward(slopes, queries, far_k, far_v, out[rows], of_far, far_plan)
        dq[rows] += far_dq
        return dq, dk, dv, dfar_k, dfar_v

    return out, backward


def block_mean_formula(x: Array, *, offsets: Array, block: int) -> Array:
    """Compute `block_mean` in plain NumPy, one block at a time."""
    means = [
        x[start : start + block].mean(axis=0)
        for first, last in itertools.pairwise(offsets)
        for start in range(first, last - block + 1, block)
    ]
    return np.array(means, x.dtype).reshape(len(means), *x.shape[1:])


@op
def block_mean(x: Array, *, offsets: Array, block: int) -> tuple[Array, Backward]:
    r"""Average blocks of rows: $y_b = \frac1B \sum_{i=0}^{B-1} x_{bB+i}$, for each sequence by itself.

    A sequence of T rows has T // block means; rows after the last complete block are in none. So a mean is known as
    soon as the last row of its block is, and no earlier row depends on a later one.
    Shapes: x (rows, ...), offsets (S + 1,) -> (blocks, ...).
    Raises InputError unless block is at least 1, ShapeError if the offsets do not rise from 0 to the number of rows.

    >>> from minigrad import Tensor
    >>> block_mean(Tensor([1.0, 3.0, 5.0, 7.0, 9.0]), offsets=np.array([0, 5]), block=2).tolist()
    [2.0, 6.0]
    """
    checked_number("block of block_mean", block, int, at_least=1)
    starts = checked_offsets("block_mean", x, offsets)
    counts = np.diff(starts) // block
    blocks = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # of each mean, in its sequence
    shape, dtype = x.shape, x.dtype  # the backward pass needs nothing else of x
    rows = (np.repeat(starts[:-1], counts) + blocks * block)[:, None] + np.arange(block)  # (blocks, block)

    def backward(dy: Array) -> Array:
        # Each row of a block has a part of 1 / B in its mean.
        dx = np.zeros(shape, dtype)
        dx[rows] = (dy * dy.dtype.type(1 / block))[:, None]
        return dx

    return x[rows].sum(axis=1) * x.dtype.type(1 / block), backward


def _flops(q: Array, *_: Array, near: SeenKeys, far: SeenFarKeys) -> float:
    return attention_flops(q, **near._asdict()) + 4.0 * float(np.sum(far.visible)) * q.shape[1] * q.shape[2]


FLOPS["attention_with_far_keys"] = (_flops, 1, 2.5)
