"""Rotary positions: the angle by which each pair of elements of a query or key is rotated.

A model that was trained on positions up to L has never seen the angles of positions beyond L. Lower frequencies keep
those angles within the known range; three ways to reduce them differ in which are reduced, and by how much.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad import ops
from minigrad.autograd.observers import composite
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn.layout import Layout
from minigrad.options import checked_number
from minigrad.typing import Array


class RotaryAngles:
    r"""Cosines and sines of the rotary angles $p\,\theta^{-2j/D}$ (Su et al. 2021, eq. 15).

    Pair j of a head of size D is (j, j + D/2), or, `interleaved`, (2j, 2j + 1). The two differ only in the order of the
    elements of a head, but the weights of a model fit one of them only.
    The tables (positions, D/2) are computed in float64 and rounded once; a longer sequence makes them longer.
    Raises InputError for settings that cannot be used, such as an odd head size.

    >>> RotaryAngles(4, theta=100.0).frequencies
    array([1. , 0.1])
    """

    def __init__(self, head_dim: int, theta: float, *, interleaved: bool = False) -> None:
        checked_number(f"head_dim of {type(self).__name__}", head_dim, int, at_least=1)
        checked_number(f"theta of {type(self).__name__}", theta, above=0)
        if head_dim % 2:
            raise InputError(
                f"head_dim of {type(self).__name__} must be even, because pairs are rotated; it is {head_dim}"
            )
        self.interleaved = interleaved
        self.frequencies = theta ** (-np.arange(0, head_dim, 2) / head_dim)
        self._tables: dict[np.dtype[Any], tuple[Array, Array]] = {}

    def tables(self, positions: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """Return cosines and sines (at least `positions`, D/2) in `dtype`."""
        found = self._tables.get(dtype)
        if found is None or len(found[0]) < positions:
            cosine, sine = self._cosines_and_sines(1 << (positions - 1).bit_length())
            found = self._tables[dtype] = cosine.astype(dtype), sine.astype(dtype)
        return found  # and not what is stored by now: another thread may have stored a shorter table

    def _cosines_and_sines(self, positions: int) -> tuple[Array, Array]:
        angles = np.outer(np.arange(positions), self.frequencies)
        return np.cos(angles), np.sin(angles)

    @composite
    def rotate(self, x: Tensor, layout: Layout) -> Tensor:
        """Rotate queries or keys (rows, H, D) by the angles of their positions."""
        cosine, sine = self.tables(int(layout.positions.max(initial=0)) + 1, x.dtype)
        return ops.rotary(x, cosine=cosine, sine=sine, positions=layout.positions, interleaved=self.interleaved)


class LinearAngles(RotaryAngles):
    r"""Divide every frequency by `factor`: positions are divided by s, so the angle is $p\,\theta^{-2j/D} / s$.

    Chen et al. 2023, "Extending context window of large language models via position interpolation", arXiv 2306.15595,
    eq. 4. Neighbours differ less as well, which costs some accuracy until the model is trained further.
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
        if beta_slow >= beta_fast:
            raise InputError(f"beta_slow of YarnAngles ({beta_slow}) must be below beta_fast ({beta_fast})")
        if attention_factor is not None:
            checked_number("attention_factor of YarnAngles", attention_factor, above=0)
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
