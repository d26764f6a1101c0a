"""Sparse attention: each query attends to the keys with the highest scores only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.autograd.profile import FLOPS
from minigrad.kernels.attention import chosen as kernels
from minigrad.ops.attention import attention_flops
from minigrad.ops.softmax import softmax_formula
from minigrad.ops.visible_keys import causal_visible, plan_of
from minigrad.options import checked_number
from minigrad.typing import Array


def sparse_attention_formula(
    q: Array, k: Array, v: Array, *, offsets: Array, top_k: int, key_ranges: Array | None = None
) -> Array:
    """Compute `sparse_attention` in plain NumPy, one query and head at a time, with all scores sorted."""
    group, out = q.shape[1] // k.shape[1], np.zeros_like(q)
    ranges = np.stack([offsets[:-1], offsets[1:]], axis=1) if key_ranges is None else key_ranges
    visible = causal_visible(offsets, ranges)
    for s in range(len(offsets) - 1):
        for row in range(offsets[s], offsets[s + 1]):
            for h in range(q.shape[1]):
                seen = slice(ranges[s, 0], ranges[s, 0] + visible[row])
                scores = np.einsum("d,ud->u", q[row, h], k[seen, h // group])
                order = np.argsort(-np.where(np.isnan(scores), np.inf, scores), kind="stable")  # the highest first
                kept = order[:top_k][~np.isneginf(scores[order[:top_k]])]
                out[row, h] = softmax_formula(scores[kept] / math.sqrt(q.shape[2])) @ v[seen, h // group][kept]
    return out


@op
def sparse_attention(
    q: Array, k: Array, v: Array, *, offsets: Array, top_k: int, key_ranges: Array | None = None
) -> tuple[Array, Backward]:
    r"""Compute `attention` in which each query and head sees only the `top_k` keys of the highest scores.

    They are chosen among the keys that the query sees in `attention`; of equal scores, the earlier key is chosen. The
    choice has no gradient. The forward pass computes all scores, half the products of full attention. The backward pass
    and the memory are proportional to the chosen keys.
    Shapes: q (rows, H, D), k and v (key rows, G, D), offsets (S + 1,), key_ranges (S, 2) -> (rows, H, D).
    Raises ShapeError as `attention` does, InputError unless top_k is at least 1.

    >>> from minigrad import Tensor
    >>> x = Tensor([[[1.0]], [[3.0]], [[2.0]]])
    >>> sparse_attention(x, x, x, offsets=np.array([0, 3]), top_k=1).tolist()  # the largest key so far
    [[[1.0]], [[3.0]], [[3.0]]]
    """
    checked_number("top_k of sparse_attention", top_k, int, at_least=1)
    plan = plan_of(q, k, v, offsets, key_ranges)
    q, k, v = (np.ascontiguousarray(x) for x in (q, k, v))  # slices of one array are copied once, not in both passes
    most = min(top_k, max(1, int(plan.visible.max(initial=0))))
    inputs, chosen = kernels.choose(q, k, v, plan, most)
    out = kernels.attend_to_chosen(inputs, chosen)

    def backward(dy: Array) -> tuple[Array, ...]:
        # As in `attention`, with sums over the chosen keys: dv_u += p_u dy, dp_u = dy . v_u,
        # ds_u = p_u (dp_u - sum_w p_w dp_w), dq = sum_u ds_u k_u / sqrt(D) and dk_u += ds_u q / sqrt(D).
        gradients = kernels.chosen_backward(dy, inputs, chosen, plan)
        return tuple(each.reshape(x.shape) for each, x in zip(gradients, (q, k, v), strict=True))

    return out.reshape(q.shape), backward


def _flops(*arrays: Array, top_k: int, **options: Any) -> float:
    """Count the scores of all pairs, among which the keys are chosen; the rest is not a matrix product."""
    return attention_flops(*arrays, **options) / 2


FLOPS["sparse_attention"] = (_flops, 1, 0)
