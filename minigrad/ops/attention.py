"""Causal attention: every token asks the tokens before it, and takes a mixture of their answers."""

from __future__ import annotations

import math

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.attention.backward import attention_backward
from minigrad.kernels.attention.forward import attention_forward
from minigrad.kernels.attention.plan import Plan
from minigrad.random import philox_key
from minigrad.typing import Array


@op
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    offsets: Array,
    key_ranges: Array | None = None,
    visible: Array | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    step: int = 0,
    index: int = 0,
) -> tuple[Array, Backward]:
    r"""Causal grouped-query attention on packed sequences (Vaswani et al. 2017, eq. 1; Ainslie et al. 2023).

    $y_t = \sum_{u \le t} p_{tu} v_u$ with $p_t = \mathrm{softmax}_u(q_t \cdot k_u / \sqrt{D})$.
    The sequences stand one after another in the rows; sequence s has query rows ``offsets[s]:offsets[s+1]``. Its keys
    are the same rows, or, with a cache, rows ``key_ranges[s, 0]:key_ranges[s, 1]``. The last of them belong to the
    queries; or query row r sees the first ``visible[r]``, which may be none and then gives 0. Query head h uses
    key/value head h // (H / G). The T x T scores are never held as a whole.
    With `dropout`, each probability is set to 0 with that chance, else divided by 1 - dropout; which ones is a
    function of (seed, step, index), drawn again in the backward pass.
    Shapes: q (rows, H, D), k and v (key rows, G, D), offsets (S + 1,), key_ranges (S, 2), visible (rows,) ->
    (rows, H, D).
    Raises ShapeError if the shapes do not fit, H is no multiple of G, or the ranges leave the arrays or overlap.
    """
    plan = _plan(q, k, v, offsets, key_ranges, visible, dropout, philox_key(seed, "attention dropout"), step, index)
    out, normaliser = attention_forward(q, k, v, plan)

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        # With P the probabilities: dV = P' dY, dP = dY V', dS = P (dP - rowsum(dY Y)), dQ = dS K, dK = dS' Q.
        return attention_backward(dy, q, k, v, out, normaliser, plan)

    return out, backward


@op
def attention_with_own_key(
    q: Array,
    k: Array,
    v: Array,
    own_k: Array,
    own_v: Array,
    *,
    offsets: Array,
    key_ranges: Array,
    visible: Array,
    has_own: Array,
) -> tuple[Array, Backward]:
    r"""Attention in which a query may see, besides the shared keys, one key and value that nobody else sees.

    With $z$ the log of the sum of exponentials over the shared keys and $s$ the score of the own one, the parts get
    the shares $e^{z - Z}$ and $e^{s - Z}$ with $Z = \ln(e^z + e^s)$. Row r has an own key if ``has_own[r]``.
    Shapes: own_k and own_v (rows, G, D), has_own (rows,), the rest as in `attention` -> (rows, H, D).
    Raises ShapeError if they do not fit or a row sees nothing at all.
    """
    plan = _plan(q, k, v, offsets, key_ranges, visible)
    if own_k.shape != (len(q), *k.shape[1:]) or own_v.shape != own_k.shape or has_own.shape != q.shape[:1]:
        raise ShapeError(f"own keys and values must be {(len(q), *k.shape[1:])}; got {own_k.shape} and {own_v.shape}")
    if not (has_own | (plan.visible > 0)).all():
        raise ShapeError("every row needs a key: a shared one or its own")
    group, kv_heads = q.shape[1] // k.shape[1], k.shape[1]
    keys, values = np.repeat(own_k, group, axis=1), np.repeat(own_v, group, axis=1)  # (rows, H, D)
    shared, normaliser = attention_forward(q, k, v, plan)
    scores = np.where(has_own[:, None], (q * keys).sum(-1) * q.dtype.type(plan.scale), -np.inf).astype(q.dtype)
    total = np.logaddexp(normaliser, scores)
    own_share = np.exp(scores - total)
    out = shared * np.exp(normaliser - total)[..., None] + values * own_share[..., None]

    def backward(dy: Array) -> tuple[Array, ...]:
        # With the total sum and the total output, the shared part's gradient is what it is without an own key.
        dq, dk, dv = attention_backward(dy, q, k, v, out, total, plan)
        slope = own_share * ((dy * values).sum(-1) - (dy * out).sum(-1)) * q.dtype.type(plan.scale)
        dq += slope[..., None] * keys
        by_head = slope[..., None] * q, own_share[..., None] * dy
        return dq, dk, dv, *(x.reshape(len(q), kv_heads, group, q.shape[2]).sum(axis=2) for x in by_head)

    return out, backward


def _plan(
    q: Array,
    k: Array,
    v: Array,
    offsets: Array,
    key_ranges: Array | None,
    visible: Array | None,
    dropout: float = 0.0,
    *draws: int,
) -> Plan:
    """Check the arguments and fill in who sees what."""
    if q.ndim != 3 or k.shape != v.shape or k.ndim != 3 or k.shape[2] != q.shape[2]:
        raise ShapeError(
            f"attention needs q (rows, H, D), k and v (key rows, G, D); got {q.shape}, {k.shape}, {v.shape}"
        )
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ShapeError(f"{q.shape[1]} query heads cannot share {k.shape[1]} key/value heads evenly")
    if not 0 <= dropout < 1:
        raise InputError(f"dropout needs a probability of at least 0 and below 1, not {dropout}")
    starts = np.require(offsets, np.int64, ["C", "W"])
    ranges = np.stack([starts[:-1], starts[1:]], axis=1) if key_ranges is None else key_ranges
    ranges = np.require(ranges, np.int64, ["C", "W"])
    _check_ranges(q, k, starts, ranges)
    lengths, num_keys = np.diff(starts), ranges[:, 1] - ranges[:, 0]
    most = np.repeat(num_keys, lengths)
    if visible is None:
        if (num_keys < lengths).any():
            raise ShapeError("attention needs at least one key per query, because every token sees itself")
        seen = np.arange(1, len(q) + 1) + np.repeat(num_keys - starts[1:], lengths)
    else:
        seen = np.require(visible, np.int64, ["C", "W"])
        inside = np.delete(np.arange(1, len(q)), starts[1:-1][(starts[1:-1] > 0) & (starts[1:-1] < len(q))] - 1)
        if seen.shape != q.shape[:1] or (seen < 0).any() or (seen > most).any():
            raise ShapeError(f"visible needs one number of keys per row, from 0 to those of its sequence; got {seen}")
        if (seen[inside] < seen[inside - 1]).any():
            raise ShapeError(f"visible must not fall within a sequence; got {seen}")
    return Plan(starts, ranges, seen, 1 / math.sqrt(q.shape[2]), dropout, *draws)


def _check_ranges(q: Array, k: Array, offsets: Array, ranges: Array) -> None:
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(q) or (np.diff(offsets) < 0).any():
        raise ShapeError(f"attention offsets must rise from 0 to the number of rows ({len(q)}); got {offsets}")
    if ranges.shape != (len(offsets) - 1, 2) or (ranges[:, 0] < 0).any() or (ranges[:, 1] > len(k)).any():
        raise ShapeError(f"attention key ranges must lie within {len(k)} key rows, one pair per sequence; got {ranges}")
    used = ranges[ranges[:, 0] < ranges[:, 1]]
    used = used[np.argsort(used[:, 0])]
    if (used[1:, 0] < used[:-1, 1]).any():
        raise ShapeError(f"attention key ranges must not overlap, or their gradients would be mixed up; got {ranges}")
