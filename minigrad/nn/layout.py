"""The layout of a batch: the sequence of each row, and its position in that sequence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from minigrad.errors import ShapeError
from minigrad.ops.sequences import are_offsets
from minigrad.typing import Array


@dataclass(frozen=True)
class Layout:
    """The place of packed sequences in the rows of a batch: sequence s has rows ``offsets[s]:offsets[s + 1]``.

    Shapes: offsets (sequences + 1,), positions (rows,), both int64.  Raises ShapeError unless offsets rise to the rows.

    >>> Layout.rectangular(2, 3)
    Layout(offsets=array([0, 3, 6]), positions=array([0, 1, 2, 0, 1, 2]))
    """

    offsets: Array
    positions: Array

    def __post_init__(self) -> None:
        offsets, rows = self.offsets, len(self.positions)
        if not are_offsets(offsets) or offsets[-1] != rows:
            raise ShapeError(f"the offsets of a layout must rise from 0 to the number of rows ({rows}); got {offsets}")

    @classmethod
    def rectangular(cls, batch_size: int, length: int) -> Layout:
        """Return the layout of `batch_size` sequences of equal `length`."""
        return cls.packed(np.full(batch_size, length))

    @classmethod
    def packed(cls, lengths: ArrayLike, past: ArrayLike = 0) -> Layout:
        """Return the layout of sequences of these lengths, one after the other, each after `past` earlier tokens.

        Shapes: lengths (sequences,), past () or (sequences,).
        Raises ShapeError for lengths that are not integers of at least 0, or that have more than one axis.

        >>> Layout.packed([2, 1], past=[0, 7])
        Layout(offsets=array([0, 2, 3]), positions=array([0, 1, 7]))
        """
        given = np.asarray(lengths)
        are_whole = given.dtype.kind in "iu" or not given.size  # an empty list has the dtype of floats
        if given.ndim != 1 or not are_whole or (given < 0).any():
            raise ShapeError(f"lengths of packed sequences are a list of integers of at least 0, not {given.tolist()}")
        counts = given.astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return cls(offsets, np.arange(offsets[-1]) + np.repeat(past - offsets[:-1], counts))

    @cached_property
    def lengths(self) -> Array:
        """The number of rows of each sequence, (sequences,)."""
        return np.diff(self.offsets)
