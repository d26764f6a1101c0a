"""Context attention: every row asks a few vectors of its own, such as summaries of the layers below."""

from __future__ import annotations

import math

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.sequence import context_attention as kernels
from minigrad.typing import Array


@op
def context_attention(q: Array, k: Array, v: Array) -> tuple[Array, Backward]:
    r"""Attend from each row to its own L keys (Wiola, arXiv 2607.01394, eq. 26).

    $y_t = \sum_\lambda p_{t\lambda} v_{t\lambda}$ with
    $p_t = \mathrm{softmax}_\lambda(q_t \cdot k_{t\lambda} / \sqrt D)$.
    Query head h uses key/value head h // (H / G).
    Shapes: q (rows, H, D), k and v (rows, L, G, D) -> (rows, H, D).  Raises ShapeError if they do not fit.
    """
    if q.ndim != 3 or k.ndim != 4 or k.shape != v.shape or k.shape[::3] != q.shape[::2] or not k.shape[1]:
        raise ShapeError(
            f"context_attention needs q (rows, H, D), k and v (rows, L, G, D); got {q.shape}, {k.shape} and {v.shape}"
        )
    if not k.shape[2] or q.shape[1] % k.shape[2]:
        raise ShapeError(f"{q.shape[1]} query heads cannot share {k.shape[2]} key/value heads evenly")
    scale = 1 / math.sqrt(q.shape[2])
    y, shares = kernels.context_attention_forward(q, k, v, scale)

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        # With P the shares: dV = P dY, dS = P (dP - sum(P dP)) with dP = dY V, dQ = dS K, dK = dS Q.
        return kernels.context_attention_backward(dy, q, k, v, shares, scale)

    return y, backward
