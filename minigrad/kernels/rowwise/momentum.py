"""Momentum with a look ahead, and the step that follows: one pass each over the elements of a matrix."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.typing import Array


@kernel
def _add_gradient(m: Array, gradient: Array, scale: float, mu: float, ahead: Array) -> None:
    one = m.dtype.type(1)
    keep, new, scale = one * mu, one - one * mu, one * scale
    for i in range(m.size):
        g = gradient[i] * scale
        m[i] = keep * m[i] + new * g
        ahead[i] = keep * m[i] + new * g


@kernel
def _step(w: Array, update: Array, size: float, keep: float) -> None:
    size, keep = w.dtype.type(size), w.dtype.type(keep)
    for i in range(w.size):
        w[i] = keep * w[i] - size * update[i]


def look_ahead(m: Array, gradient: Array, scale: float, mu: float) -> Array:
    """Set m to mu m + (1 - mu) g, where g is `scale` times the gradient; return mu m + (1 - mu) g of the new m.

    Shapes: m and gradient (N,) -> (N,).
    """
    ahead = np.empty_like(m)
    _add_gradient(m, gradient, scale, mu, ahead)
    return ahead


def step(w: Array, update: Array, size: float, keep: float) -> None:
    """Set w to keep w - size update.  Shapes: (N,)."""
    _step(w, update, size, keep)
