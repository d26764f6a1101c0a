"""Clipping: a bound on the length of the gradient, so that one bad batch cannot throw the model off."""

from __future__ import annotations

import math
from collections.abc import Sequence

from minigrad.kernels.adamw import sum_of_squares
from minigrad.optim.flat import runs
from minigrad.tensor import Tensor


def global_norm(parameters: Sequence[Tensor]) -> float:
    """Return the length of all gradients taken as one long vector."""
    return math.sqrt(math.fsum(sum_of_squares(run.gradient) for run in runs(parameters)))


def clip_factor(norm: float, max_norm: float) -> float:
    r"""Return what gradients are multiplied with: $\min(1, c / \|g\|)$ (Pascanu et al. 2013, algorithm 1)."""
    return 1.0 if norm <= max_norm else max_norm / norm


def clip_gradients(parameters: Sequence[Tensor], max_norm: float) -> float:
    """Scale all gradients down together if their common length exceeds `max_norm`; return the length before.

    Gradients whose length is not finite stay as they are: no factor can mend them.
    """
    norm = global_norm(parameters)
    factor = clip_factor(norm, max_norm)
    if math.isfinite(norm) and factor < 1:
        for run in runs(parameters):
            run.gradient *= run.gradient.dtype.type(factor)
    return norm
