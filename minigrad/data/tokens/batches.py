"""A batch: sequences of any lengths, packed one after the other without padding, and how it is divided into parts."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from minigrad.constants import IGNORE
from minigrad.data.tokens.token_files import Tokens
from minigrad.nn.layout import Layout


class Objective(Protocol):
    """A loss in place of the cross-entropy, with data of its own for each row of a batch."""

    def __call__(self, x: Any, weight: Any, targets: Any, row_weights: Any = None, /) -> Any:
        """Return the loss, with the arguments and the result of `ops.linear_cross_entropy`."""

    def of(self, rows: slice | npt.NDArray[np.int64]) -> Objective:
        """Return the objective of some of the rows."""

    def joined(self, others: Sequence[Any]) -> Objective:
        """Return the objective of the rows of several batches, one after the other; `others` are of the same kind."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Packed sequences of tokens, and for each token the one that follows it.

    Shapes: tokens and targets (rows,) int32, weights (rows,) float32. A target of -100 does not count; with `weights`,
    the loss of each target is multiplied by its own; an `objective` takes the place of the cross-entropy. If the batch
    is a part of that of a step, `first_row` is the number of its first row there.
    """

    tokens: npt.NDArray[np.int32]
    targets: npt.NDArray[np.int32]
    layout: Layout
    first_row: int = 0
    weights: npt.NDArray[np.float32] | None = None
    objective: Objective | None = None

    @classmethod
    def rectangular(cls, tokens: npt.ArrayLike, targets: npt.ArrayLike) -> Batch:
        """Return the batch of sequences of equal length: tokens and targets (B, T)."""
        ids, wanted = np.asarray(tokens, np.int32), np.asarray(targets, np.int32)
        return cls(ids.reshape(-1), wanted.reshape(-1), Layout.rectangular(ids.shape[0], ids.shape[1]))

    @property
    def num_targets(self) -> int:
        """The number of targets that count."""
        return int((self.targets != IGNORE).sum())

    @property
    def teaches(self) -> bool:
        """Whether the loss of any target counts; none does if there is none, or all have the weight 0 (equal rewards).

        Then no step may be made: the averages of an optimizer would move the weights without any gradient.
        """
        return self.num_targets > 0 and (self.weights is None or bool(self.weights.any()))

    def parts(self, count: int) -> list[Batch]:
        """Divide the batch between sequences into at most `count` parts of about equally many rows, none of them empty.

        Each border is the one between two sequences that is nearest to an equal share.

        >>> batch = Batch(np.arange(9), np.arange(9), Layout.packed([4, 1, 4]))
        >>> [part.tokens.tolist() for part in batch.parts(2)]
        [[0, 1, 2, 3, 4], [5, 6, 7, 8]]
        """
        offsets = self.layout.offsets
        shares = offsets[-1] * np.arange(1, count) / count
        after = np.searchsorted(offsets, shares)
        is_nearer = offsets[after] - shares <= shares - offsets[after - 1]
        cuts = np.unique(offsets[[0, *np.where(is_nearer, after, after - 1), -1]])
        return [self.between(int(first), int(last)) for first, last in itertools.pairwise(cuts)]

    def cut(self, context: int) -> Batch:
        """Cut every sequence that is longer than `context` into pieces of that many tokens, each a sequence of its own.

        The tokens, their targets and their order stay the same.

        >>> Batch(np.arange(7), np.arange(7), Layout.packed([5, 2])).cut(3).layout.lengths.tolist()
        [3, 2, 2]
        """
        positions = self.layout.positions % context
        offsets = np.append(np.flatnonzero(positions == 0), len(positions))
        return dataclasses.replace(self, layout=Layout(offsets, positions))

    def between(self, first: int, last: int) -> Batch:
        """Return the sequences in rows `first` to `last`, which begin and end a sequence."""
        offsets, rows = self.layout.offsets, slice(first, last)
        layout = Layout(offsets[(offsets >= first) & (offsets <= last)] - first, self.layout.positions[rows])
        weights = None if self.weights is None else self.weights[rows]
        objective = None if self.objective is None else self.objective.of(rows)
        return Batch(self.tokens[rows], self.targets[rows], layout, self.first_row + first, weights, objective)


def gather(tokens: Tokens, starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Batch:
    """Return the batch of the sequences that begin at `starts` in a row of tokens and have these lengths.

    Shapes: tokens (n,), starts and lengths (sequences,); ``starts + lengths < n``, because the last one has a target.
    """
    layout = Layout.packed(lengths)
    places = np.repeat(starts, lengths) + layout.positions
    return Batch(tokens[places].astype(np.int32), tokens[places + 1].astype(np.int32), layout)


def join(parts: Sequence[Batch]) -> Batch:
    """Return the sequences of several batches as one, in an order whose halves have about equally many tokens.

    Either all of the batches have weights, or none has; the same holds for an objective.
    """
    lengths = np.concatenate([part.layout.lengths for part in parts])
    order = balanced(lengths)
    layout = Layout.packed(lengths[order])
    places = np.repeat((np.cumsum(lengths) - lengths)[order], lengths[order]) + layout.positions
    tokens, targets = (np.concatenate([getattr(part, name) for part in parts]) for name in ("tokens", "targets"))
    weights = [part.weights for part in parts if part.weights is not None]
    by_row = np.concatenate(weights)[places] if weights else None
    first, *others = (part.objective for part in parts)
    objective = None if first is None else first.joined(others).of(places)
    return Batch(tokens[places], targets[places], layout, weights=by_row, objective=objective)


def balanced(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return an order of these lengths in which the halves, the halves of these and so on have about equal sums.

    The longest go first, each into the half that is emptier (the rule of Graham 1969, "Bounds on multiprocessing timing
    anomalies").

    >>> balanced(np.array([1, 5, 2, 6, 1, 1])).tolist()
    [3, 0, 4, 1, 2, 5]
    """
    if len(lengths) < 3:
        return np.arange(len(lengths))
    halves: tuple[list[int], list[int]] = ([], [])
    sums = [0, 0]
    for place in np.argsort(-lengths, kind="stable").tolist():
        emptier = 0 if sums[0] <= sums[1] else 1
        halves[emptier].append(place)
        sums[emptier] += int(lengths[place])
    return np.concatenate([np.array(half)[balanced(lengths[half])] for half in halves])
