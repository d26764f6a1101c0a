"""Spiral positions: a rotary angle that is the sum of two windings, and a radius that oscillates with the position."""

from __future__ import annotations

import numpy as np

from minigrad.nn.rotary import RotaryAngles
from minigrad.typing import Array


class SpiralAngles(RotaryAngles):
    r"""Tables of the spiral rotary encoding of Wiola (arXiv 2607.01394, eqs. 11-16).

    Pair j of a head at position p is rotated by $p\,\omega_j (1 + 1/k)$, the sum of two windings with
    $\omega_j = \theta^{-2j/D}$ and the second k times slower, and scaled by $r_j(p) = 1 + a \sin(p f \omega_j)$.

    The two windings are one rotation: with a = 0 this is the rotary encoding at position (1 + 1/k) p. With a > 0 norms
    are not preserved, and scores depend on more than the distance, because each pair has the factor $r_j(p)\,r_j(q)$.
    """

    def __init__(self, head_dim: int, theta: float, *, divisor: float, amplitude: float, frequency: float) -> None:
        super().__init__(head_dim, theta)
        self.divisor, self.amplitude, self.frequency = divisor, amplitude, frequency

    def _cosines_and_sines(self, positions: int) -> tuple[Array, Array]:
        phases = np.outer(np.arange(positions), self.frequencies)
        angles, radius = phases * (1 + 1 / self.divisor), 1 + self.amplitude * np.sin(phases * self.frequency)
        return radius * np.cos(angles), radius * np.sin(angles)
