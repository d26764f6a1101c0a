"""Adaptive token merging: the decision about which neighbouring rows merge. It is discrete, so it has no gradient."""

from __future__ import annotations

import itertools

import numpy as np

from minigrad.kernels.sequence import merging as kernels
from minigrad.ops.sequences import checked_offsets
from minigrad.typing import Array


def merged_rows_formula(x: Array, offsets: Array, threshold: float) -> Array:
    """Compute `merged_rows` in plain NumPy, one pair of neighbours after the other."""
    merged = np.zeros(len(x), bool)
    for start, stop in itertools.pairwise(offsets):
        t = start
        while t + 1 < stop:
            norms = np.linalg.norm(x[t]) * np.linalg.norm(x[t + 1])
            cosine = x[t] @ x[t + 1] / norms if norms else 0.0
            merged[t + 1] = cosine > threshold
            t += 2 if merged[t + 1] else 1
    return merged


def merged_rows(x: Array, offsets: Array, threshold: float) -> Array:
    r"""Return which rows merge into the row before them (Wiola, arXiv 2607.01394, eq. 30 and algorithm 1).

    From left to right, row t + 1 merges into row t if their cosine $\rho_t = \hat x_t \cdot \hat x_{t+1}$ exceeds the
    threshold and row t has not itself merged into another. Sequence s has rows ``offsets[s]:offsets[s + 1]``; rows of
    different sequences do not merge.
    Shapes: x (rows, C), offsets (S + 1,) -> (rows,) booleans.  Raises ShapeError for offsets that do not fit.
    """
    return kernels.merge_groups(x, checked_offsets("merged_rows", x, offsets), threshold)
