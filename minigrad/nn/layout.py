"""The layout of a batch: the sequence of each row, and its position in that sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minigrad.typing import Array


@dataclass(frozen=True)
class Layout:
    """The place of packed sequences in the rows of a batch: sequence s has rows ``offsets[s]:offsets[s + 1]``.

    Shapes: offsets (sequences + 1,), positions (rows,), both int64.

    >>> Layout.rectangular(2, 3, past=4)
    Layout(offsets=array([0, 3, 6]), positions=array([4, 5, 6, 4, 5, 6]))
    """

    offsets: Array
    positions: Array

    @classmethod
    def rectangular(cls, batch_size: int, length: int, past: int = 0) -> Layout:
        """Return the layout of `batch_size` sequences of equal `length`, whose first token has position `past`."""
        positions = np.tile(np.arange(past, past + length), batch_size)
        return cls(np.arange(batch_size + 1) * length, positions)
