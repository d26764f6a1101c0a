"""Clipping: an upper bound on the norm of the gradient, so that one unusual batch cannot ruin the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.kernels.rowwise.updates import sum_of_squares
from minigrad.optim.flat import segments
from minigrad.typing import Array

LARGEST_NORM = 2.0**60
"""The norm to which an optimizer clips every gradient: float32 holds the squares of its elements, and their sums."""


def global_norm(parameters: Iterable[Tensor]) -> float:
    """Return the norm of all gradients taken as one long vector; a parameter without a gradient does not count.

    Raises InputError for a parameter that cannot be updated in place (see `segments`).
    """
    return _norm(_gradients(parameters))


def clip_factor(norm: float, max_norm: float) -> float:
    r"""Return the gradient scale: $\min(1, c / \|g\|)$ (Pascanu et al. 2013, algorithm 1).

    Raises InputError unless `max_norm` is above 0; infinity is allowed.
    """
    if not max_norm > 0:
        raise InputError(f"max_norm, the largest norm of a gradient, is above 0, not {max_norm}")
    return 1.0 if norm <= max_norm else max_norm / norm


def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> float:
    """Scale all gradients down together if their common norm exceeds `max_norm`; return the norm before.

    If the norm is not finite, the gradients stay unchanged, because no factor makes them finite. Parameters without a
    gradient, such as frozen ones, are skipped. Raises InputError for one that no optimizer could update in place.
    """
    gradients = _gradients(parameters)
    norm = _norm(gradients)
    factor = clip_factor(norm, max_norm)
    if math.isfinite(norm) and factor < 1:
        for gradient in gradients:
            gradient *= gradient.dtype.type(factor)
    return norm


def _gradients(parameters: Iterable[Tensor]) -> list[Array]:
    return [each.gradient for each in segments(parameter for parameter in parameters if parameter.has_gradient)]


def _norm(gradients: list[Array]) -> float:
    return math.sqrt(math.fsum(map(sum_of_squares, gradients)))
