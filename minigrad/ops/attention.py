"""Causal attention: every token asks the tokens before it, and takes a mixture of their answers."""

from __future__ import annotations

import math

import numpy as np

from minigrad.errors import ShapeError
from minigrad.graph import Array, Backward
from minigrad.kernels import attention as kernels
from minigrad.op import op


@op
def attention(
    q: Array, k: Array, v: Array, *, offsets: Array, key_ranges: Array | None = None
) -> tuple[Array, Backward]:
    r"""Causal grouped-query attention on packed sequences (Vaswani et al. 2017, eq. 1; Ainslie et al. 2023).

    $y_t = \sum_{u \le t} p_{tu} v_u$ with $p_t = \mathrm{softmax}_u(q_t \cdot k_u / \sqrt{D})$.
    The sequences stand one after another in the rows; sequence s has query rows ``offsets[s]:offsets[s+1]``. Its keys
    are the same rows, or, with a cache, rows ``key_ranges[s, 0]:key_ranges[s, 1]``, of which the last ones belong to
    the queries. Query head h uses key/value head h // (H / G). The T x T scores are never held as a whole.
    Shapes: q (rows, H, D), k and v (key rows, G, D), offsets (S + 1,), key_ranges (S, 2) -> (rows, H, D).
    Raises ShapeError if the shapes do not fit, H is no multiple of G, or the ranges leave the arrays or overlap.
    """
    if q.ndim != 3 or k.shape != v.shape or k.ndim != 3 or k.shape[2] != q.shape[2]:
        raise ShapeError(
            f"attention needs q (rows, H, D), k and v (key rows, G, D); got {q.shape}, {k.shape}, {v.shape}"
        )
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ShapeError(f"{q.shape[1]} query heads cannot share {k.shape[1]} key/value heads evenly")
    starts = np.require(offsets, np.int64, ["C", "W"])
    ranges = np.stack([starts[:-1], starts[1:]], axis=1) if key_ranges is None else key_ranges
    ranges = np.require(ranges, np.int64, ["C", "W"])
    _check_ranges(q, k, starts, ranges)
    scale = 1 / math.sqrt(q.shape[2])
    out, normaliser = kernels.attention_forward(q, k, v, starts, ranges, scale)

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        # With P the probabilities: dV = P' dY, dP = dY V', dS = P (dP - rowsum(dY Y)), dQ = dS K, dK = dS' Q.
        return kernels.attention_backward(dy, q, k, v, out, normaliser, starts, ranges, scale)

    return out, backward


def _check_ranges(q: Array, k: Array, offsets: Array, ranges: Array) -> None:
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(q) or (np.diff(offsets) < 0).any():
        raise ShapeError(f"attention offsets must rise from 0 to the number of rows ({len(q)}); got {offsets}")
    if ranges.shape != (len(offsets) - 1, 2) or (ranges[:, 0] < 0).any() or (ranges[:, 1] > len(k)).any():
        raise ShapeError(f"attention key ranges must lie within {len(k)} key rows, one pair per sequence; got {ranges}")
    if (ranges[:, 1] - ranges[:, 0] < np.diff(offsets)).any():
        raise ShapeError("attention needs at least one key per query, because every token sees itself")
    used = ranges[ranges[:, 0] < ranges[:, 1]]
    used = used[np.argsort(used[:, 0])]
    if (used[1:, 0] < used[:-1, 1]).any():
        raise ShapeError(f"attention key ranges must not overlap, or their gradients would be mixed up; got {ranges}")
