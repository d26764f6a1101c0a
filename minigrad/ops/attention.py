"""Causal attention: each token's output is a weighted average of the values of the tokens up to itself.

The weights are a softmax of the products of the token's query with their keys.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.attention.backward import attention_backward
from minigrad.kernels.attention.forward import attention_forward
from minigrad.kernels.attention.plan import Plan
from minigrad.kernels.rowwise.dropout import Stream
from minigrad.ops.dropout import check_probability
from minigrad.ops.softmax import softmax_formula
from minigrad.random import philox_key
from minigrad.typing import Array


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
    out = np.empty_like(q)
    for s in range(len(offsets) - 1):
        rows = slice(offsets[s], offsets[s + 1])
        keys = rows if key_ranges is None else slice(*key_ranges[s])
        num_rows, num_keys = len(q[rows]), len(k[keys])
        scores = np.einsum("thd,uhd->thu", q[rows], k[keys]) / math.sqrt(q.shape[2])  # (T, H, keys)
        # By default the newest keys belong to the queries, and a query sees no key after its own.
        seen = np.arange(num_keys - num_rows, num_keys) + 1 if visible is None else visible[rows]
        mask = np.arange(num_keys) < seen[:, None, None]  # (T, 1, keys)
        if first_visible is not None:
            mask &= np.arange(num_keys) >= first_visible[rows, None, None]
        p = softmax_formula(np.where(mask, scores, -np.inf))
        if dropout_mask is not None:
            p = p * dropout_mask[rows, :, :num_keys]
        out[rows] = np.einsum("thu,uhd->thd", p, v[keys])
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
    are the same rows, or, with a cache, the rows ``key_ranges[s, 0]:key_ranges[s, 1]``, of which the newest belong to
    the queries. A query sees the keys up to its own; or, with `visible`, query row r sees the first ``visible[r]`` keys
    of its sequence, a number that must not decrease within the sequence. With `first_visible`, it does not see the
    first ``first_visible[r]`` of them, a number that must not decrease either: with visible - window, a query sees the
    newest keys only, and the cost is linear in the length of a sequence. A query that sees no key gives 0.
    The T x T scores are never stored as a whole.
    With `dropout`, each probability is set to 0 with that probability, else divided by 1 - dropout. Which ones are
    dropped is a function of (seed, step, index), drawn again in the backward pass. If the queries are only a part of a
    batch, `first_row` is the number of their first row there: the parts are dropped as the whole would be.
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
    keys = visible_keys(q, k, v, offsets, key_ranges, visible, first_visible)
    plan = Plan(**keys, scale=1 / math.sqrt(q.shape[2]), dropout=dropout, stream=stream)
    q, k, v = (np.ascontiguousarray(x) for x in (q, k, v))  # slices of one array are copied once, not in both passes
    out, logsumexp = attention_forward(q, k, v, plan)

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        # With S = Q K^T / sqrt(D), P = softmax(S) and Y = P V:
        #   dV = P^T dY and dP = dY V^T;
        #   dS = P * (dP - rowsum(P * dP)), the softmax's own backward; since Y = P V, rowsum(P * dP) = rowsum(dY * Y);
        #   dQ = dS K / sqrt(D) and dK = dS^T Q / sqrt(D).
        # P is computed again from the scores, as exp(S - logsumexp(S)).
        # Dropout multiplies P by a mask M, so that Y = (P * M) V: dV = (P * M)^T dY and dP = M * (dY V^T).
        return attention_backward(dy, q, k, v, out, logsumexp, plan)

    return out, backward


def causal_visible(offsets: Array, key_ranges: Array | None = None) -> Array:
    """Return how many keys of its sequence each query row sees if the newest keys belong to the queries.

    Shapes: offsets (S + 1,), key_ranges (S, 2) -> (rows,).

    >>> causal_visible(np.array([0, 3, 5])).tolist()
    [1, 2, 3, 1, 2]
    """
    lengths = offsets[1:] - offsets[:-1]
    num_keys = lengths if key_ranges is None else key_ranges[:, 1] - key_ranges[:, 0]
    seen: Array = np.arange(1, offsets[-1] + 1) + np.repeat(num_keys - offsets[1:], lengths)
    return seen


def visible_keys(
    q: Array,
    k: Array,
    v: Array,
    offsets: Array,
    key_ranges: Array | None,
    visible: Array | None,
    first_visible: Array | None = None,
) -> dict[str, Any]:
    """Check the arguments of attention; return those of its plan that say, for each row, which keys it sees."""
    _check_heads(q, k, v)
    starts = np.require(offsets, np.int64, ["C", "W"])
    lengths = starts[1:] - starts[:-1]
    if not len(starts) or starts[0] != 0 or starts[-1] != len(q) or lengths.min(initial=0) < 0:
        raise ShapeError(f"attention offsets must rise from 0 to the number of rows ({len(q)}); got {starts}")
    ranges = np.stack([starts[:-1], starts[1:]], axis=1) if key_ranges is None else key_ranges
    ranges = np.require(ranges, np.int64, ["C", "W"])
    if key_ranges is not None or len(k) < len(q):  # the rows of the queries rise and do not overlap
        _check_ranges(k, starts, ranges)
    num_keys = ranges[:, 1] - ranges[:, 0]
    if visible is not None:
        seen = np.require(visible, np.int64, ["C", "W"])
        _check_bound("visible", seen, starts, np.repeat(num_keys, lengths))
    elif (num_keys < lengths).any():
        raise ShapeError("attention needs at least one key per query, because every token sees itself")
    else:
        seen = causal_visible(starts, ranges)
    if first_visible is not None:
        first_visible = np.require(first_visible, np.int64, ["C", "W"])
        _check_bound("first_visible", first_visible, starts, seen)
    return {"offsets": starts, "ranges": ranges, "visible": seen, "first_visible": first_visible}


def _check_heads(q: Array, k: Array, v: Array) -> None:
    if q.ndim != 3 or k.shape != v.shape or k.ndim != 3 or k.shape[2] != q.shape[2]:
        raise ShapeError(
            f"attention needs q (rows, H, D), k and v (key rows, G, D); got {q.shape}, {k.shape}, {v.shape}"
        )
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ShapeError(f"{q.shape[1]} query heads cannot share {k.shape[1]} key/value heads evenly")


def _check_ranges(k: Array, offsets: Array, ranges: Array) -> None:
    if ranges.shape != (len(offsets) - 1, 2) or (ranges[:, 0] < 0).any() or (ranges[:, 1] > len(k)).any():
        raise ShapeError(f"attention key ranges must lie within {len(k)} key rows, one pair per sequence; got {ranges}")
    used = ranges[ranges[:, 0] < ranges[:, 1]]
    used = used[np.argsort(used[:, 0])]
    if (used[1:, 0] < used[:-1, 1]).any():
        raise ShapeError(f"attention key ranges must not overlap, or their gradients would be mixed up; got {ranges}")


def _check_bound(name: str, bound: Array, offsets: Array, most: Array) -> None:
    """Check numbers of keys, one for each row: from 0 to `most` (rows,), and not decreasing within a sequence."""
    if bound.shape != most.shape or (bound < 0).any() or (bound > most).any():
        limit = "the keys of its sequence" if name == "visible" else "the keys up to the last that it sees"
        raise ShapeError(f"{name} needs a number of keys for each row, from 0 to {limit}; got {bound}")
    rows, starts = len(bound), offsets[1:-1]
    inside = np.delete(np.arange(1, rows), starts[(starts > 0) & (starts < rows)] - 1)  # rows that begin no sequence
    if (bound[inside] < bound[inside - 1]).any():
        raise ShapeError(f"{name} must not decrease within a sequence; got {bound}")
