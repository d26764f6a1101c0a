"""Attention in which a row sees, beside the keys that it shares with others, one key of its own."""

from __future__ import annotations

import math

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
from minigrad.ops.softmax import softmax_formula
from minigrad.ops.visible_keys import plan_of
from minigrad.typing import Array


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
    out, z, p_own = joined(by_shared, shared_z, values, own_z, plan.scale)

    def backward(dy: Array) -> tuple[Array, ...]:
        dq, dk, dv = attention_backward(dy, q, k, v, out, z, plan)
        dscores = p_own * ((dy * values).sum(-1) - (dy * out).sum(-1)) * q.dtype.type(plan.scale)
        dq += dscores[..., None] * keys
        by_head = dscores[..., None] * q, p_own[..., None] * dy
        return dq, dk, dv, *(x.reshape(len(q), kv_heads, group, q.shape[2]).sum(axis=2) for x in by_head)

    return out, backward


def _flops(q: Array, *_: Array, shared: SeenKeys, has_own: Array) -> float:
    return attention_flops(q, **shared._asdict()) + 4.0 * float(np.sum(has_own)) * q.shape[1] * q.shape[2]


FLOPS["attention_with_own_key"] = (_flops, 1, 2.5)
