"""Rotary positions: the angle by which each pair of elements of a query or key is rotated."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.layout import Layout
from minigrad.options import checked_number
from minigrad.typing import Array


class RotaryAngles:
    r"""Cosines and sines of the rotary angles $p\,\theta^{-2j/D}$ (Su et al. 2021, eq. 15).

    Pair j of a head of size D is (j, j + D/2), or, `interleaved`, (2j, 2j + 1). The two differ only in the order of the
    elements of a head, but the weights of a model fit one of them only.
    The tables (positions, D/2) are computed in float64 and rounded once; a longer sequence makes them longer.

    >>> RotaryAngles(4, theta=100.0).frequencies
    array([1. , 0.1])
    """

    def __init__(self, head_dim: int, theta: float, *, interleaved: bool = False) -> None:
        checked_number(f"head_dim of {type(self).__name__}", head_dim, int, at_least=1)
        checked_number(f"theta of {type(self).__name__}", theta, above=0)
        self.interleaved = interleaved
        self.frequencies = theta ** (-np.arange(0, head_dim, 2) / head_dim)
        self._tables: dict[np.dtype[Any], tuple[Array, Array]] = {}

    def tables(self, positions: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """Return cosines and sines (at least `positions`, D/2) in `dtype`."""
        if dtype not in self._tables or len(self._tables[dtype][0]) < positions:
            cosine, sine = self._cosines_and_sines(1 << (positions - 1).bit_length())
            self._tables[dtype] = cosine.astype(dtype), sine.astype(dtype)
        return self._tables[dtype]

    def _cosines_and_sines(self, positions: int) -> tuple[Array, Array]:
        angles = np.outer(np.arange(positions), self.frequencies)
        return np.cos(angles), np.sin(angles)

    def rotate(self, x: Tensor, layout: Layout) -> Tensor:
        """Rotate queries or keys (rows, H, D) by the angles of their positions."""
        cosine, sine = self.tables(int(layout.positions.max(initial=0)) + 1, x.dtype)
        return ops.rotary(x, cosine=cosine, sine=sine, positions=layout.positions, interleaved=self.interleaved)
