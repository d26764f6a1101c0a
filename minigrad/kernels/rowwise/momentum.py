"""Momentum with a look ahead, and the step that follows: one pass each over the elements of a matrix."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.typing import Array

LIFT = 2.0**60
"""The factor of a look ahead: float32 would round 0.15 times its smallest numbers to zero."""


@kernel
def _add_gradient(m: Array, gradient: Array, scale: float, mu: float, ahead: Array) -> bool:
    """Do what `look_ahead` describes; return whether the gradient is zero."""
    keep, new, scale = np.float64(mu), np.float64(1 - mu), np.float64(scale)  # so that no product underflows
    is_zero = True
    for i in range(m.size):
        g = gradient[i] * scale
        is_zero &= g == 0
        m[i] = keep * m[i] + new * g
        ahead[i] = LIFT * (keep * m[i] + new * g)
    return is_zero


@kernel
def _step(w: Array, update: Array, size: float, keep: float) -> None:
    size, keep = w.dtype.type(size), w.dtype.type(keep)
    for i in range(w.size):
        w[i] = keep * w[i] - size * update[i]


def look_ahead(m: Array, gradient: Array, scale: float, mu: float) -> Array:
    """Set m to mu m + (1 - mu) g, where g is `scale` times the gradient; return 2^60 (mu m + (1 - mu) g) of the new m.

    If g is zero, so is the result: there is nothing to look ahead to.
    Shapes: m and gradient (N,), whose elements are at most 2^60 -> (N,).
    """
    ahead = np.empty_like(m)
    if _add_gradient(m, gradient, scale, mu, ahead):
        ahead[...] = 0
    return ahead


def step(w: Array, update: Array, size: float, keep: float) -> None:
    """Set w to keep w - size update.  Shapes: (N,)."""
    _step(w, update, size, keep)
