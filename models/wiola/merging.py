"""Adaptive token merging: similar neighbours share one row of attention (Wiola, section VIII).

The literal reading of the paper is not causal. It gives both tokens of a pair the attention output of their average, so
the output of the first depends on the second, which is the token that it is trained to predict. Merging is causal if
the decision about (t, t + 1) changes no output before t + 1. Three variants obey this rule:

    first       the pair is represented by its first token; the second copies the output of the first
    avg_causal  as above, but later tokens see the pair as the average of both (eq. 31)
    kv_only     every token has its own query; only the keys and values of complete pairs are averaged

and `paper` is the literal reading, for study. Causal merging can process one token at a time: the only state of a
sequence is its newest token, if that may still merge with the next.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.ops.sequences import checked_offsets
from minigrad.typing import Array
from models.wiola.cache import Pending
from models.wiola.kernels.merging import merge_groups


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

    The decision is discrete, so it has no gradient.
    From left to right, row t + 1 merges into row t if their cosine $\rho_t = \hat x_t \cdot \hat x_{t+1}$ exceeds the
    threshold and row t has not itself merged into another. Sequence s has rows ``offsets[s]:offsets[s + 1]``; rows of
    different sequences do not merge.
    Shapes: x (rows, C), offsets (S + 1,) -> (rows,) booleans.  Raises ShapeError for offsets that do not fit.
    """
    return merge_groups(x, checked_offsets("merged_rows", x, offsets), threshold)


@dataclass(frozen=True)
class Groups:
    """The groups of one or two neighbours that rows merge into.

    The rows are those of this pass and, before the first row of a sequence, its pending token if that is open.
    `source` (E,) is the index of each of these E rows in the pending tokens followed by the new rows; `first` and
    `last` are the outer rows of each group, `group` (E,) is the group of each row, and the groups of sequence s are
    ``offsets[s]:offsets[s + 1]``, (S + 1,).
    """

    source: Array
    first: Array
    last: Array
    group: Array
    offsets: Array
    new: Array  # (E,) whether the row belongs to this pass

    @property
    def ratio(self) -> float:
        """The merge ratio, 1 - groups / rows (eq. 33's mu)."""
        return 1 - len(self.first) / max(len(self.source), 1)


def find_groups(x: Array, offsets: Array, threshold: float, pending: Pending | None) -> Groups:
    """Group similar neighbours into pairs, greedily from the left (Wiola, arXiv 2607.01394, eq. 30 and algorithm 1).

    A row joins the row before it in its sequence if their cosine exceeds the threshold and that row has not itself
    joined another, so a group has one or two rows. The result holds indices; nothing is averaged here. An open
    `pending` token counts as the row before the first new one of its sequence.
    Shapes: x (rows, C); sequence s has rows ``offsets[s]:offsets[s + 1]``, offsets (S + 1,).
    """
    lengths = np.diff(offsets)
    is_open = np.zeros(len(lengths), bool) if pending is None else pending.open & (lengths > 0)
    table = x if pending is None else np.concatenate([pending.rows, x])
    shift = len(table) - len(x)
    ends = np.cumsum(lengths + is_open)
    starts = ends - lengths - is_open
    # The rows of a sequence are consecutive; its pending token, if open, comes before them.
    source = np.arange(len(x) + int(is_open.sum())) + shift - np.repeat(np.cumsum(is_open), lengths + is_open)
    source[starts[is_open]] = np.flatnonzero(is_open)
    bounds = np.concatenate([[0], ends]).astype(np.int64)
    is_second = merged_rows(table[source], bounds, threshold)
    first = np.flatnonzero(~is_second)
    group = np.cumsum(~is_second) - 1
    last = np.append(first, len(source))[1:] - 1
    counts = np.concatenate([[0], np.cumsum(~is_second)])
    return Groups(source, first, last, group, counts[bounds], source >= shift)


def rows_at(x: Tensor, index: Array) -> Tensor:
    """Select rows by index, which may repeat: x (rows, ...), index (n,) -> (n, ...)."""
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    return ops.embedding(flat, index).reshape(len(index), *x.shape[1:])
