"""Adaptive token merging: neighbours that say nearly the same share one place in the attention (Wiola, section VIII).

The literal reading of the paper leaks. It gives both tokens of a pair the attention output of their average, so the
first of them has seen the second, which is the very token it is trained to predict. The rule that makes merging causal:
the decision about (t, t + 1) may change what happens at t + 1 and later, nothing before. Three variants keep it:

    first       the pair is represented by its first token; the second takes over the first one's output
    avg_causal  as above, but later tokens see the pair as the average of both (eq. 31)
    kv_only     every token asks for itself; only the keys and values of complete pairs are averaged

and `paper` is the literal reading, for study. Causal merging can be done online, one token at a time: the only thing
to remember of a text is its last token, if that may still find a partner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad import ops
from minigrad.ops.merging import merged_rows
from minigrad.tensor import Tensor

Array = NDArray[Any]

CAUSAL = ("first", "avg_causal", "kv_only")
VARIANTS = (*CAUSAL, "paper")


@dataclass(frozen=True)
class Pending:
    """The last token of each text so far, as one merging layer saw it, and whether it may still take a partner.

    Shapes, with S texts: rows (S, C) after the norm, keys and values (S, G, D) before turning, outputs (S, C),
    open (S,).
    """

    rows: Array
    keys: Array
    values: Array
    outputs: Array
    open: Array


@dataclass(frozen=True)
class Groups:
    """How rows merge into groups of one or two neighbours.

    The rows are those of this pass, and before the first of a text its pending token, if that is still open. `source`
    (E,) tells where each of these E rows stands in the pending tokens followed by the new rows; `first` and `last` are
    the outer rows of each group, `group` (E,) is the group of each row, `offsets` (S + 1,) counts the groups per text.
    """

    source: Array
    first: Array
    last: Array
    group: Array
    offsets: Array
    new: Array  # (E,) whether the row is of this pass

    @property
    def ratio(self) -> float:
        """The merge ratio, 1 - groups / rows (eq. 33's mu)."""
        return 1 - len(self.first) / max(len(self.source), 1)


def find_groups(x: Array, offsets: Array, threshold: float, pending: Pending | None) -> Groups:
    """Merge neighbours whose cosine exceeds the threshold, greedily from the left (eq. 30 and algorithm 1).

    Shapes: x (rows, C), offsets (S + 1,).
    """
    lengths = np.diff(offsets)
    waiting = np.zeros(len(lengths), bool) if pending is None else pending.open & (lengths > 0)
    table = x if pending is None else np.concatenate([pending.rows, x])
    shift = len(table) - len(x)
    ends = np.cumsum(lengths + waiting)
    starts = ends - lengths - waiting
    # A text's rows follow one another; its pending token, if open, is put in front of them.
    source = np.arange(len(x) + int(waiting.sum())) + shift - np.repeat(np.cumsum(waiting), lengths + waiting)
    source[starts[waiting]] = np.flatnonzero(waiting)
    bounds = np.concatenate([[0], ends]).astype(np.int64)
    second = merged_rows(table[source], bounds, threshold)
    first = np.flatnonzero(~second)
    group = np.cumsum(~second) - 1
    last = np.append(first, len(source))[1:] - 1
    counts = np.concatenate([[0], np.cumsum(~second)])
    return Groups(source, first, last, group, counts[bounds], source >= shift)


def rows_at(x: Tensor, index: Array) -> Tensor:
    """Take rows by number, repeats allowed: x (rows, ...), index (n,) -> (n, ...)."""
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    return ops.embedding(flat, index).reshape(len(index), *x.shape[1:])
