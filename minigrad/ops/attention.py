"""Causal attention: each token's output is a weighted average of the values of the tokens up to itself.

The weights are a softmax of the products of the token's query with their keys. `sequence_formula` computes one
sequence, `attention_formula` several of different lengths in the same rows, and `attention` does so fast.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.autograd.profile import FLOPS
from minigrad.kernels.attention.backward import attention_backward
from minigrad.kernels.attention.forward import attention_forward
from minigrad.kernels.gemm.backend import rounds
from minigrad.kernels.gemm.narrow import round_bfloat16
from minigrad.kernels.rowwise.dropout import Stream
from minigrad.ops.dropout import check_probability
from minigrad.ops.softmax import log_softmax_formula, softmax_formula
from minigrad.ops.visible_keys import causal_visible, plan_of
from minigrad.random import philox_key
from minigrad.typing import Array


def sequence_formula(q: Array, k: Array, v: Array, mask: Array, dropout_mask: Array | None = None) -> Array:
    """Attend from all queries of one sequence to the keys at which `mask` is true.

    Shapes: q (T, H, D), k and v (keys, H, D), mask (T, 1, keys), dropout_mask (T, H, keys) -> (T, H, D).
    """
    scores = np.einsum("thd,uhd->thu", q, k) / math.sqrt(q.shape[2])  # (T, H, keys)
    scores = np.where(mask, scores, -np.inf)
    p = softmax_formula(scores)
    if dropout_mask is not None:
        p = p * dropout_mask
    return np.einsum("thu,uhd->thd", p, v)


def attention_formula(
    q: Array,
    k: Array,
    v: Array,
    *,
    offsets: Array,
    key_ranges: Array | None = None,
    visible: Array | None = None,
    first_visible: Array | None = None,
    dropout_mask: Array | None = None,
) -> Array:
    """Compute `attention` in plain NumPy, with all scores of a sequence in memory.

    `dropout_mask` (rows, H, most keys of a sequence) gives the factor of each probability: 0 or 1 / (1 - dropout).
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)  # (key rows, H, D): each key/value head serves a group
    visible = causal_visible(offsets, key_ranges) if visible is None else visible
    out = np.empty_like(q)
    for s in range(len(offsets) - 1):
        rows = slice(offsets[s], offsets[s + 1])
        keys = rows if key_ranges is None else slice(*key_ranges[s])
        number = np.arange(len(k[keys]))  # of a key in its sequence
        mask = number < visible[rows, None, None]  # (T, 1, keys)
        if first_visible is not None:
            mask &= number >= first_visible[rows, None, None]
        dropped = None if dropout_mask is None else dropout_mask[rows, :, : len(number)]
        out[rows] = sequence_formula(q[rows], k[keys], v[keys], mask, dropped)
    return out


@op
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    offsets: Array,
    key_ranges: Array | None = None,
    visible: Array | None = None,
    first_visible: Array | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    step: int = 0,
    index: int = 0,
    first_row: int = 0,
) -> tuple[Array, Backward]:
    r"""Compute causal grouped-query attention on packed sequences (Vaswani et al. 2017, eq. 1; Ainslie et al. 2023).

    $y_t = \sum_{u \le t} p_{tu} v_u$ with $p_t = \mathrm{softmax}_u(q_t \cdot k_u / \sqrt{D})$.
    Query head h uses key/value head h // (H / G). Sequence s has query rows ``offsets[s]:offsets[s + 1]``. Its keys
    are the same rows or, with a cache, the rows ``key_ranges[s, 0]:key_ranges[s, 1]``; the newest of these keys belong
    to the queries. A query sees the keys up to its own. With `visible`, query row r instead sees the first
    ``visible[r]`` keys of its sequence; with `first_visible`, it does not see the first ``first_visible[r]`` of them.
    Neither number may decrease within a sequence. With first_visible = visible - window, the cost is linear in the
    length of a sequence. A query that sees no key gives 0. The T x T scores are never stored as a whole.
    With `dropout`, each probability is set to 0 with that chance, otherwise divided by 1 - dropout, as `dropout` does.
    Shapes: q (rows, H, D), k and v (key rows, G, D), offsets (S + 1,), key_ranges (S, 2), visible and
    first_visible (rows,) -> (rows, H, D).
    Raises ShapeError if the shapes do not fit, H is not a multiple of G, or the ranges leave the arrays or overlap;
    InputError unless 0 <= dropout < 1.

    >>> from minigrad import Tensor, ops
    >>> q, k, v = Tensor([[[0.0]], [[0.0]]]), Tensor([[[1.0]], [[7.0]]]), Tensor([[[2.0]], [[4.0]]])  # all scores: 0
    >>> ops.attention(q, k, v, offsets=np.array([0, 2])).tolist()  # one sequence of two tokens, one head of size 1
    [[[2.0]], [[3.0]]]
    """
    check_probability(dropout)
    stream = Stream(philox_key(seed, "attention dropout"), step, index, first_row)
    plan = plan_of(q, k, v, offsets, key_ranges, visible, first_visible)
    plan = replace(plan, dropout=dropout, stream=stream)
    q, k, v = (np.ascontiguousarray(x) for x in (q, k, v))  # slices of one array are copied once, not in both passes
    out, denominators = attention_forward(q, k, v, plan)

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        # With S = Q K^T / sqrt(D), P = softmax(S) and Y = P V:
        #   dV = P^T dY and dP = dY V^T;
        #   dS = P * (dP - rowsum(P * dP)), the softmax's own backward; since Y = P V, rowsum(P * dP) = rowsum(dY * Y);
        #   dQ = dS K / sqrt(D) and dK = dS^T Q / sqrt(D).
        # P is computed again from the scores and the denominators of the softmax.
        # Dropout multiplies P by a mask M, so that Y = (P * M) V: dV = (P * M)^T dY and dP = M * (dY V^T).
        return attention_backward(dy, q, k, v, out, denominators, plan)

    return out, backward


def relative_entropy_formula(q: Array, k: Array, *, offsets: Array, key_ranges: Array, first_visible: Array) -> Array:
    """Compute `relative_entropy` in plain NumPy, one query at a time."""
    group, found, visible = q.shape[1] // k.shape[1], np.zeros(len(q)), causal_visible(offsets, key_ranges)
    for s, (first, _) in enumerate(key_ranges):
        for row in range(offsets[s], offsets[s + 1]):
            keys = k[first + first_visible[row] : first + visible[row]].repeat(group, axis=1)  # (keys, H, D)
            log_p = log_softmax_formula(np.einsum("hd,uhd->hu", q[row], keys) / math.sqrt(q.shape[2]))
            entropies = -(np.exp(log_p) * log_p).sum(axis=1)  # (H,)
            found[row] = entropies.mean() / math.log(len(keys)) if len(keys) > 1 else 0.0
    return found


def relative_entropy(q: Array, k: Array, *, offsets: Array, key_ranges: Array, first_visible: Array) -> Array:
    r"""Measure how many keys a query attends to: the entropy, from 0 (one key) to 1 (all keys alike).

    $H_t / \ln n_t$ with $H_t = -\sum_u p_{tu} \ln p_{tu}$, averaged over the heads, and $n_t$ the number of keys that
    the query sees; 0 if that is one. With the largest score $m_t$ and $Z_t = \sum_u e^{s_{tu} - m_t}$, the entropy is
    $\ln Z_t + m_t - \sum_u p_{tu} s_{tu}$, because $\ln p_{tu} = s_{tu} - m_t - \ln Z_t$. The last sum is the score of
    the mean of the keys, attended to as values. Where scores are large, the rounding of that score may lead outside the
    range; the result is then its nearest end.
    Shapes: as in `attention`; -> (rows,), in the dtype of q. Raises ShapeError as `attention` does.
    """
    plan = plan_of(q, k, k, offsets, key_ranges, first_visible=first_visible)
    mean_key, (largest, total) = attention_forward(q, k, k, plan)
    if rounds(q.dtype):  # as the scores are from which the other sums come
        q = round_bfloat16(q.reshape(len(q), -1)).reshape(q.shape)
    count = plan.visible - first_visible
    entropy = np.log(total) + (largest - (q * mean_key).sum(-1)) * q.dtype.type(plan.scale)  # (rows, H)
    most = np.log(np.maximum(count, 2)).astype(q.dtype)[:, None]
    shares = np.clip(entropy / most, 0, 1).mean(axis=1)
    found: Array = np.where(count > 1, shares, q.dtype.type(0))
    return found


def attention_flops(
    q: Array,
    *_: Array,
    offsets: Array,
    key_ranges: Any = None,
    visible: Any = None,
    first_visible: Any = None,
    **__: Any,
) -> float:
    """Count two products, scores and output, for each head and each pair of a query and a key that it sees."""
    lengths = np.diff(offsets)
    keys = lengths if key_ranges is None else np.diff(key_ranges)[:, 0]
    pairs = float(np.sum(visible) if visible is not None else (lengths * (2 * keys - lengths + 1)).sum() / 2)
    return 4.0 * (pairs - (0.0 if first_visible is None else float(np.sum(first_visible)))) * q.shape[1] * q.shape[2]


FLOPS["attention"] = (attention_flops, 1, 2.5)  # the backward pass recomputes the scores
