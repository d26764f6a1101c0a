"""Context attention: each row attends to a few keys of its own, such as summaries of the layers below."""

from __future__ import annotations

import math

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.autograd.profile import FLOPS
from minigrad.errors import ShapeError
from minigrad.ops.softmax import softmax_formula
from minigrad.typing import Array
from models.wiola.kernels import context_attention as kernels


def context_attention_formula(q: Array, k: Array, v: Array) -> Array:
    """Compute `context_attention` in plain NumPy."""
    group = q.shape[1] // k.shape[2]
    k, v = k.repeat(group, axis=2), v.repeat(group, axis=2)  # (rows, L, H, D): each key/value head serves a group
    scores = np.einsum("thd,tlhd->thl", q, k) / math.sqrt(q.shape[2])  # (rows, H, L)
    return np.einsum("thl,tlhd->thd", softmax_formula(scores), v)


@op
def context_attention(q: Array, k: Array, v: Array) -> tuple[Array, Backward]:
    r"""Attend from each row to L keys of its own (Wiola, arXiv 2607.01394, eq. 26).

    $y_t = \sum_\lambda p_{t\lambda} v_{t\lambda}$ with
    $p_t = \mathrm{softmax}_\lambda(q_t \cdot k_{t\lambda} / \sqrt D)$.
    Query head h uses key/value head h // (H / G).
    Shapes: q (rows, H, D), k and v (rows, L, G, D) -> (rows, H, D).  Raises ShapeError if they do not fit.
    """
    fit = q.ndim == 3 and k.ndim == 4 and k.shape == v.shape and k.shape[::3] == q.shape[::2]
    if not fit or not k.shape[1] or not q.shape[2]:
        raise ShapeError(
            f"context_attention needs q (rows, H, D), k and v (rows, L, G, D), where L and D are at least 1; got "
            f"{q.shape}, {k.shape} and {v.shape}"
        )
    if not k.shape[2] or q.shape[1] % k.shape[2]:
        raise ShapeError(f"{q.shape[1]} query heads cannot share {k.shape[2]} key/value heads evenly")
    scale = 1 / math.sqrt(q.shape[2])
    y, p = kernels.context_attention_forward(q, k, v, scale)
    # For each row and head: dv_l = p_l dy and dp_l = dy . v_l; through the softmax, ds_l = p_l (dp_l - sum p * dp);
    # dq = scale sum_l ds_l k_l and dk_l = scale ds_l q. Keys and values sum over the heads of their group.
    return y, lambda dy: kernels.context_attention_backward(dy, q, k, v, p, scale)


FLOPS["context_attention"] = (lambda q, k, v: 4.0 * q.size * k.shape[1], 1, 2)
