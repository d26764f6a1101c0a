"""Attention over two sets of keys, joined in one softmax: the shared keys of `attention`, and others beside them.

Each set is attended to by itself. With the denominators $z_1$ and $z_2$ of the two softmaxes, that of both sets is
$Z = z_1 + z_2$, and their softmax is the first one times $z_1 / Z$ and the second one times $z_2 / Z$. The derivation
of the gradient in `attention` holds for the whole softmax: a key's probability is exp(score) / Z, and rowsum(P * dP) is
rowsum(dY * Y) with the whole output Y. So the kernel computes the part of each set if it is given `out` and Z of the
whole.
"""

from __future__ import annotations

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
from minigrad.ops.softmax import softmax_formula
from minigrad.ops.visible_keys import plan_of
from minigrad.options import checked_number
from minigrad.typing import Array


class SeenKeys(NamedTuple):
    """The places of rows and keys of each sequence, and which of its keys a row sees.  Shapes: as in `attention`."""

    offsets: Array  # (S + 1,): sequence s has the query rows offsets[s]:offsets[s + 1]
    key_ranges: Array  # (S, 2): and the key rows key_ranges[s, 0]:key_ranges[s, 1]
    visible: Array  # (rows,): a row sees this many keys from the first on,
    first_visible: Array | None = None  # (rows,): but not this many at the beginning; None: all


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
    out[rows], (z.largest[rows], z.total[rows]), _ = _joined(out[rows], near_z, far_out, far_z, plan.scale)

    def backward(dy: Array) -> tuple[Array, ...]:
        # The far scores are s + ln(weight), so their probabilities are exp(s) / (Z / weight).
        dq, dk, dv = attention_backward(dy, q, k, v, out, z, plan)
        slopes, of_far = np.ascontiguousarray(dy[rows]), Denominators(z.largest[rows], z.total[rows] / weight)
        far_dq, dfar_k, dfar_v = attention_backward(slopes, queries, far_k, far_v, out[rows], of_far, far_plan)
        dq[rows] += far_dq
        return dq, dk, dv, dfar_k, dfar_v

    return out, backward


def _joined(
    out: Array, z: Denominators, other: Array, other_z: Denominators, scale: float
) -> tuple[Array, Denominators, Array]:
    """Return the output and the denominators of the softmax over two sets of keys, from those of each set.

    The third result is the probability that all keys of the second set have together (rows, H).
    """
    largest = np.maximum(z.largest, other_z.largest)
    shift = np.where(np.isfinite(largest), largest, 0)  # 0 for a row without keys, or whose total is NaN
    mine, others = (part.total * np.exp((part.largest - shift) * scale) for part in (z, other_z))
    total = mine + others
    inverse = 1 / np.where(total == 0, 1, total)
    joined = out * (mine * inverse)[..., None] + other * (others * inverse)[..., None]
    return joined, Denominators(largest, total), others * inverse


def attention_with_own_key_formula(
    q: Array, k: Array, v: Array, own_k: Array, own_v: Array, *, shared: SeenKeys, has_own: Array
) -> Array:
    """Compute `attention_with_own_key` in plain NumPy: one softmax over the shared keys that a row sees and its own."""
    group, out = q.shape[1] // k.shape[1], np.empty_like(q)
    first_visible = np.zeros(len(q), int) if shared.first_visible is None else shared.first_visible
    for s, (first, _) in enumerate(shared.key_ranges):
        for row in range(shared.offsets[s], shared.offsets[s + 1]):
            seen = slice(first + first_visible[row], first + shared.visible[row])
            own = slice(row, row + int(has_own[row]))
            keys = np.concatenate([k[seen], own_k[own]]).repeat(group, axis=1)  # (keys, H, D)
            values = np.concatenate([v[seen], own_v[own]]).repeat(group, axis=1)
            p = softmax_formula(np.einsum("hd,uhd->hu", q[row], keys) / math.sqrt(q.shape[2]))
            out[row] = np.einsum("hu,uhd->hd", p, values)
    return out


@op
def attention_with_own_key(
    q: Array, k: Array, v: Array, own_k: Array, own_v: Array, *, shared: SeenKeys, has_own: Array
) -> tuple[Array, Backward]:
    r"""Compute attention in which a row may see, beside the shared keys, one key and value that no other row sees.

    The output is one softmax over the shared keys that a row sees and its own key. Row r has an own key if
    ``has_own[r]``.
    Shapes: own_k and own_v (rows, G, D), has_own (rows,), the rest as in `attention` -> (rows, H, D).
    Raises ShapeError if they do not fit or a row sees no key at all.
    """
    plan = plan_of(q, k, v, *shared)
    first, visible = plan.seen
    if own_k.shape != (len(q), *k.shape[1:]) or own_v.shape != own_k.shape or has_own.shape != q.shape[:1]:
        raise ShapeError(f"own keys and values must be {(len(q), *k.shape[1:])}; got {own_k.shape} and {own_v.shape}")
    if not (has_own | (visible - first > 0)).all():
        raise ShapeError("every row needs a key: a shared one or its own")
    group, kv_heads = q.shape[1] // k.shape[1], k.shape[1]
    sees_own = has_own[:, None, None]
    keys, values = (np.where(sees_own, x, 0).repeat(group, axis=1) for x in (own_k, own_v))  # (rows, H, D)
    by_shared, shared_z = attention_forward(q, k, v, plan)
    scores = np.where(has_own[:, None], (q * keys).sum(-1), -np.inf).astype(q.dtype)
    own_z = Denominators(scores, np.broadcast_to(has_own[:, None], scores.shape).astype(q.dtype))
    out, z, p_own = _joined(by_shared, shared_z, values, own_z, plan.scale)

    def backward(dy: Array) -> tuple[Array, ...]:
        dq, dk, dv = attention_backward(dy, q, k, v, out, z, plan)
        dscores = p_own * ((dy * values).sum(-1) - (dy * out).sum(-1)) * q.dtype.type(plan.scale)
        dq += dscores[..., None] * keys
        by_head = dscores[..., None] * q, p_own[..., None] * dy
        return dq, dk, dv, *(x.reshape(len(q), kv_heads, group, q.shape[2]).sum(axis=2) for x in by_head)

    return out, backward


def _flops_with_far_keys(q: Array, *_: Array, near: SeenKeys, far: SeenFarKeys) -> float:
    return attention_flops(q, **near._asdict()) + 4.0 * float(np.sum(far.visible)) * q.shape[1] * q.shape[2]


def _flops_with_own_key(q: Array, *_: Array, shared: SeenKeys, has_own: Array) -> float:
    return attention_flops(q, **shared._asdict()) + 4.0 * float(np.sum(has_own)) * q.shape[1] * q.shape[2]


FLOPS["attention_with_far_keys"] = (_flops_with_far_keys, 1, 2.5)
FLOPS["attention_with_own_key"] = (_flops_with_own_key, 1, 2.5)
