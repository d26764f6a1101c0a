"""Rotary positions for sequences longer than those trained on: three ways to reduce the frequencies.

A model that was trained on positions up to L has never seen the angles of positions beyond L. Lower frequencies keep
those angles within the known range. The ways differ in which frequencies are reduced, and by how much.
"""

from __future__ import annotations

import math

import numpy as np

from minigrad.nn.rotary import RotaryAngles
from minigrad.options import checked_number
from minigrad.typing import Array


class LinearAngles(RotaryAngles):
    r"""Divide every frequency by `factor`: positions are divided by s, so the angle is $p\,\theta^{-2j/D} / s$.

    Chen et al. 2023, "Extending context window of large language models via position interpolation", arXiv 2306.15595,
    eq. 4. The angles between neighbours become smaller as well, which costs some accuracy until the model is trained
    further.
    """

    def __init__(self, head_dim: int, theta: float, *, factor: float) -> None:
        checked_number("factor of LinearAngles", factor, above=0)
        super().__init__(head_dim, theta)
        self.frequencies = self.frequencies / factor


class NTKAngles(RotaryAngles):
    r"""Use the base $\theta' = \theta\, s^{D/(D-2)}$, which divides the lowest frequency by s and keeps the highest.

    The "NTK-aware" interpolation in the form of Peng et al. 2023 (arXiv 2309.00071, definition 1). The high
    frequencies, which distinguish neighbours, hardly change.
    """

    def __init__(self, head_dim: int, theta: float, *, factor: float) -> None:
        checked_number("factor of NTKAngles", factor, above=0)
        checked_number("head_dim of NTKAngles", head_dim, int, at_least=3)
        super().__init__(head_dim, ntk_theta(head_dim, theta, factor))


def ntk_theta(head_dim: int, theta: float, factor: float) -> float:
    """Return the base that divides the lowest frequency of a head by `factor` and keeps the highest."""
    return float(theta * factor ** (head_dim / (head_dim - 2)))


class YarnAngles(RotaryAngles):
    r"""Divide low frequencies by `factor`, keep high ones, and interpolate between them.

    $f'_j = (1 - \gamma_j) f_j / s + \gamma_j f_j$ (Peng et al. 2023, "YaRN", arXiv 2309.00071, definition 2), where
    $\gamma$ decreases from 1 at the pair that rotates `beta_fast` times within the original context to 0 at the pair
    that rotates `beta_slow` times. As in the authors' program and in transformers, it is linear in the pair's number
    j, not in the number of rotations as in their eq. 18. Queries and keys are multiplied by $0.1 \ln s + 1$ (eq. 22),
    or by `attention_factor` if given, so that the softmax over a longer sequence stays as concentrated.
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
        checked_number("theta of YarnAngles", theta, above=1)
        checked_number("original_context of YarnAngles", original_context, int, at_least=1)
        for name, value in {"factor": factor, "beta_fast": beta_fast, "beta_slow": beta_slow}.items():
            checked_number(f"{name} of YarnAngles", value, above=0)
        super().__init__(head_dim, theta)

        def pair_that_rotates(times: float) -> float:
            return head_dim * math.log(original_context / (2 * math.pi * times)) / (2 * math.log(theta))

        first = max(math.floor(pair_that_rotates(beta_fast)), 0)
        last = min(math.ceil(pair_that_rotates(beta_slow)), head_dim - 1)
        reduced = np.clip((np.arange(head_dim // 2) - first) / max(last - first, 0.001), 0.0, 1.0)
        self.frequencies = self.frequencies * (1 - reduced) + self.frequencies / factor * reduced
        self.scale = 0.1 * math.log(factor) + 1 if attention_factor is None else attention_factor

    def _cosines_and_sines(self, positions: int) -> tuple[Array, Array]:
        cosine, sine = super()._cosines_and_sines(positions)
        return self.scale * cosine, self.scale * sine
