"""The key shift: half of each key is that of the token before, so that one layer can copy from the context.

To continue "... A B ... A" with B, a layer must find the tokens that *followed* an earlier A. A key holds what a token
is, not what it follows, so a model learns this in two layers and thousands of steps (Olsson et al. 2022, arXiv
2209.11895, "induction heads"). With half of each key moved to the next token, one layer and some hundred steps suffice.
"""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.ops.sequences import checked_offsets
from minigrad.typing import Array


def key_shift_formula(k: Array, *, offsets: Array) -> Array:
    """Compute `key_shift` in plain NumPy, key by key."""
    starts, shifted = set(offsets[:-1].tolist()), np.arange(k.shape[2]) % (k.shape[2] // 2) >= k.shape[2] // 4
    before = np.array([np.zeros(k.shape[1:], k.dtype) if row in starts else k[row - 1] for row in range(len(k))])
    return np.where(shifted, before.reshape(k.shape), k)


@op
def key_shift(k: Array, *, offsets: Array) -> tuple[Array, Backward]:
    """Replace half of each key by that half of the key before it in its sequence; by zeros in the first of a sequence.

    A key of size D consists of the pairs (j, j + D/2) that rotary positions rotate. The pairs from j = D // 4 on, which
    rotate slowest, are shifted: half of the key if D is a multiple of 4, otherwise more. Called after the rotation, so
    that a key keeps the angle of its own position.
    As "partial key offset" in K. Jordan et al.'s modded-nanogpt (2026), which shifts before the rotation.
    Shapes: k (rows, G, D), offsets (S + 1,): sequence s has rows ``offsets[s]:offsets[s + 1]`` -> (rows, G, D).
    Raises ShapeError unless keys have an even size and offsets rise from 0 to the number of rows.

    >>> from minigrad import Tensor, ops
    >>> ops.key_shift(Tensor([[[1.0, 2, 3, 4]], [[5.0, 6, 7, 8]]]), offsets=np.array([0, 2])).tolist()
    [[[1.0, 0.0, 3.0, 0.0]], [[5.0, 2.0, 7.0, 4.0]]]
    """
    starts = checked_offsets("key_shift", k, offsets)
    if k.ndim != 3 or k.shape[2] % 2:
        raise ShapeError(f"key_shift needs k (rows, G, D), D even, not {k.shape}")
    filled = np.diff(starts) > 0
    first, last = starts[:-1][filled], starts[1:][filled] - 1

    def backward(dy: Array) -> Array:
        # The moved half comes back from the next row; that of the last row of a sequence was moved nowhere.
        dk = dy.copy()
        pairs_of(dk)[1][:-1] = pairs_of(dy)[1][1:]
        pairs_of(dk)[1][last] = 0
        return dk

    y = k.copy()
    pairs_of(y)[1][1:] = pairs_of(k)[1][:-1]
    pairs_of(y)[1][first] = 0
    return y, backward


def pairs_of(k: Array) -> tuple[Array, Array]:
    """Return views (..., 2, pairs) of the halves of keys (..., D) that stay, and that are shifted."""
    half = k.shape[-1] // 2
    pairs = k.reshape(*k.shape[:-1], 2, half)
    return pairs[..., : half // 2], pairs[..., half // 2 :]
