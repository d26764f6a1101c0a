"""Where each row of a batch stands: which sequence, and which position in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minigrad.typing import Array


@dataclass(frozen=True)
class Layout:
    """How sequences lie in packed rows: sequence s has rows ``offsets[s]:offsets[s + 1]``.

    Shapes: offsets (sequences + 1,), positions (rows,), both int64.
    """

    offsets: Array
    positions: Array

    @classmethod
    def rectangular(cls, batch_size: int, length: int, past: int = 0) -> Layout:
        """Lay out `batch_size` sequences of equal `length`, whose first token stands at position `past`."""
        positions = np.tile(np.arange(past, past + length), batch_size)
        return cls(np.arange(batch_size + 1) * length, positions)
