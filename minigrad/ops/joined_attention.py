"""Attention over two sets of keys, joined in one softmax: for operations with other keys beside those of `attention`.

Each set is attended to by itself. With the denominators $z_1$ and $z_2$ of the two softmaxes, that of both sets is
$Z = z_1 + z_2$, and their softmax is the first one times $z_1 / Z$ and the second one times $z_2 / Z$. The derivation
of the gradient in `attention` holds for the whole softmax: a key's probability is exp(score) / Z, and rowsum(P * dP) is
rowsum(dY * Y) with the whole output Y. So the kernel computes the part of each set if it is given `out` and Z of the
whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.attention.plan import Denominators
from minigrad.typing import Array


class SeenKeys(NamedTuple):
    """The places of rows and keys of each sequence, and which of its keys a row sees.  Shapes: as in `attention`."""

    offsets: Array  # (S + 1,): sequence s has the query rows offsets[s]:offsets[s + 1]
    key_ranges: Array  # (S, 2): and the key rows key_ranges[s, 0]:key_ranges[s, 1]
    visible: Array  # (rows,): a row sees this many keys from the first on,
    first_visible: Array | None = None  # (rows,): but not this many at the beginning; None: all


def joined(
    out: Array, z: Denominators, other: Array, other_z: Denominators, scale: float
) -> tuple[Array, Denominators, Array]:
    """Return the output and the denominators of the softmax over two sets of keys, from those of each set.

    The third result is the probability that all keys of the second set have together (rows, H).
    """
    largest = np.maximum(z.largest, other_z.largest)
    shift = np.where(np.isfinite(largest), largest, 0)  # 0 for a row without keys, or whose total is NaN
    mine, others = (part.total * np.exp((part.largest - shift) * scale) for part in (z, other_z))
    total = mine + others
    inverse = 1 / np.where(total == 0, 1, total)
    both = out * (mine * inverse)[..., None] + other * (others * inverse)[..., None]
    return both, Denominators(largest, total), others * inverse
