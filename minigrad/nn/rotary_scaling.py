"""Rotary positions for texts longer than those trained on: three ways to slow the turning down.

A model that has seen positions up to L meets angles beyond L that it never learned to read. Slower turning brings
them back into the range that it knows; which pairs are slowed, and by how much, is what the ways differ in.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.nn.positions import RotaryAngles

Array = NDArray[Any]


class LinearAngles(RotaryAngles):
    r"""Every pair turns `factor` times slower: position p s is turned as position p was, $p\,\theta^{-2j/D} / s$.

    Chen et al. 2023, "Extending context window of large language models via position interpolation", arXiv 2306.15595,
    eq. 4. Neighbours move closer together as well, which costs some precision until the model is trained on.
    """

    def __init__(self, head_dim: int, theta: float, *, factor: float) -> None:
        super().__init__(head_dim, theta)
        self.frequencies = self.frequencies / factor


class NTKAngles(RotaryAngles):
    r"""A larger base, $\theta' = \theta\, s^{D/(D-2)}$: the slowest pair turns s times slower, the fastest as before.

    The "NTK-aware" interpolation, as Peng et al. 2023 (arXiv 2309.00071, definition 1) write it down. The fast pairs,
    which tell neighbours apart, are hardly touched.
    """

    def __init__(self, head_dim: int, theta: float, *, factor: float) -> None:
        super().__init__(head_dim, ntk_theta(head_dim, theta, factor))


def ntk_theta(head_dim: int, theta: float, factor: float) -> float:
    """Return the base with which the slowest pair of a head turns `factor` times slower."""
    return float(theta * factor ** (head_dim / (head_dim - 2)))


class YarnAngles(RotaryAngles):
    r"""Slow pairs turn `factor` times slower, fast pairs as before, and those between get a mixture.

    $f'_j = (1 - \gamma_j) f_j / s + \gamma_j f_j$ (Peng et al. 2023, "YaRN", arXiv 2309.00071, definition 2), where
    $\gamma$ falls from 1 at the pair that turns `beta_fast` times within the original context to 0 at the pair that
    turns `beta_slow` times. As in the authors' program and in transformers, it falls in a line over the pair's number
    j, not over the number of turns as in their eq. 18. Queries and keys get longer by $0.1 \ln s + 1$ (eq. 22),
    unless `attention_factor` says by how much: so the scores of a longer text stay as sharp.
    """

    def __init__(
        self,
        head_dim: int,
        theta: float,
        *,
        factor: float,
        original_context: int,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        attention_factor: float | None = None,
    ) -> None:
        super().__init__(head_dim, theta)

        def pair_that_turns(times: float) -> float:
            return head_dim * math.log(original_context / (2 * math.pi * times)) / (2 * math.log(theta))

        first = max(math.floor(pair_that_turns(beta_fast)), 0)
        last = min(math.ceil(pair_that_turns(beta_slow)), head_dim - 1)
        slowed = np.clip((np.arange(head_dim // 2) - first) / max(last - first, 0.001), 0.0, 1.0)
        self.frequencies = self.frequencies * (1 - slowed) + self.frequencies / factor * slowed
        self.length = 0.1 * math.log(factor) + 1 if attention_factor is None else attention_factor

    def _cosines_and_sines(self, positions: int) -> tuple[Array, Array]:
        cosine, sine = super()._cosines_and_sines(positions)
        return self.length * cosine, self.length * sine
