"""Attention as it is written on paper: queries, keys and values of shape (..., T, D), and any mask."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.ops.attention import attention
from minigrad.ops.matmul import matmul
from minigrad.ops.shape import where
from minigrad.ops.softmax import softmax


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: ArrayLike | Tensor | None = None, is_causal: bool = False
) -> Tensor:
    r"""Compute attention, $\mathrm{softmax}(q k^T / \sqrt{D} + \mathrm{mask})\, v$ (Vaswani et al. 2017, eq. 1).

    A `mask` of booleans is true where a query sees a key; any other is added to the scores, and may have a gradient. It
    broadcasts to (..., T, S). With `is_causal`, the queries belong to the last T keys, and none sees a key after its
    own. A query that sees no key gives 0. Several query heads may share a key/value head: if q has H heads at axis -3,
    k and v may have G, where H is a multiple of G; query head h then uses key/value head h // (H / G).
    Without a mask, causal attention is computed by `ops.attention`; otherwise the scores of all pairs are stored.
    Shapes: q (..., T, D), k and v (..., S, D) -> (..., T, D).
    Raises ShapeError if the shapes do not fit, InputError for a mask of integers.

    >>> from minigrad import ops
    >>> x = Tensor([[1.0], [3.0], [8.0]])
    >>> ops.scaled_dot_product_attention(0.0 * x, x, x, is_causal=True).tolist()  # all scores are 0
    [[1.0], [2.0], [4.0]]
    >>> ops.scaled_dot_product_attention(0.0 * x, x, x, mask=[True, False, True]).tolist()
    [[4.5], [4.5], [4.5]]
    """
    q, k, v = (part if isinstance(part, Tensor) else Tensor(part) for part in (q, k, v))
    shared = _query_heads_per_key_head(q, k, v)
    (*_, length, size), num_keys = q.shape, k.shape[-2]
    if is_causal and num_keys < length:
        raise ShapeError(f"causal attention needs a key for each of {length} queries; there are {num_keys}")
    if is_causal and mask is None:
        return _causal(q, k, v, shared)
    lead = k.shape[:-2]
    grouped = (q * (1 / math.sqrt(size))).reshape(*lead, shared * length, size)  # (..., G, H / G T, D)
    scores = matmul(grouped, k.swapaxes(-1, -2)).reshape(*q.shape[:-1], num_keys)  # (..., H, T, S)
    if is_causal:
        scores = where(np.tri(length, num_keys, num_keys - length, dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = _masked(scores, mask)
    p = softmax(scores).reshape(*lead, shared * length, num_keys)
    return matmul(p, v).reshape(q.shape)


def _causal(q: Tensor, k: Tensor, v: Tensor, shared: int) -> Tensor:
    """Compute causal attention as `attention` does: a key/value head with its queries is one of its sequences."""
    (*lead, num_keys, size), length = k.shape, q.shape[-2]
    count = math.prod(lead)
    rows = q.reshape(*lead, shared, length, size).swapaxes(-3, -2).reshape(count * length, shared, size)
    keys, values = (part.reshape(count * num_keys, 1, size) for part in (k, v))
    first = np.arange(count) * num_keys
    ranges = np.stack([first, first + num_keys], axis=1)
    out = attention(rows, keys, values, offsets=np.arange(count + 1) * length, key_ranges=ranges)
    return out.reshape(*lead, length, shared, size).swapaxes(-3, -2).reshape(q.shape)


def _masked(scores: Tensor, mask: ArrayLike | Tensor) -> Tensor:
    """Return the scores (..., T, S) with a mask applied."""
    given = mask if isinstance(mask, Tensor) else np.asarray(mask)
    if given.dtype.kind not in "bf":
        raise InputError(
            f"an attention mask holds booleans (true where a query sees a key) or floats that are added to the scores, "
            f"not {given.dtype}; use mask != 0, or mask.astype('float32')"
        )
    try:
        fits = np.broadcast_shapes(given.shape, scores.shape) == scores.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"an attention mask of shape {given.shape} does not broadcast to the scores {scores.shape}")
    return where(given, scores, -np.inf) if given.dtype.kind == "b" else scores + given


def _query_heads_per_key_head(q: Tensor, k: Tensor, v: Tensor) -> int:
    """Check the shapes and return H / G; it is 1 where there is no axis of heads."""
    if min(q.ndim, k.ndim) >= 2 and k.shape == v.shape and q.shape[-1] == k.shape[-1] > 0:
        if q.shape[:-2] == k.shape[:-2]:
            return 1
        if q.ndim == k.ndim and q.shape[:-3] == k.shape[:-3] and k.shape[-3] and q.shape[-3] % k.shape[-3] == 0:
            return q.shape[-3] // k.shape[-3]
    raise ShapeError(
        f"attention needs q (..., T, D), and k and v (..., S, D) with the same leading sizes, or with fewer heads at "
        f"axis -3 (a number that divides the number of heads of q), and D at least 1; got {q.shape}, {k.shape} and "
        f"{v.shape}"
    )
