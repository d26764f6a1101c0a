"""Updates of parameters, and the norm that clipping needs: one pass each over a flat array."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

_CHUNK = 1 << 14  # elements that are summed together, before the sums of the chunks are added in order
_SMALLEST, _LARGEST = 2.0**-100, 2.0**127  # between which float32 holds the sum of a chunk, whatever its elements are
LIFT = 2.0**60
"""The factor of a look ahead: float32 would round 0.15 times its smallest numbers to zero."""


class AdamWFactors(NamedTuple):
    """The scalars of one update, the same for every element."""

    beta1: float
    beta2: float
    step_size: float  # learning rate / (1 - beta1**t)
    correction: float  # 1 / (1 - beta2**t)
    eps: float
    keep: float  # 1 - learning rate * weight decay
    gradient_scale: float  # multiplies the gradient first


@kernel
def _adamw_range(
    parameter: Array, gradient: Array, m: Array, v: Array, factors: AdamWFactors, start: int, stop: int
) -> None:
    one = parameter.dtype.type(1)
    beta1, beta2, step_size, correction, eps, keep, scale = factors
    # Slices indexed from 0: an index from `start` might be negative, and the compiler would emit gathers.
    ps, gs, ms, vs = parameter[start:stop], gradient[start:stop], m[start:stop], v[start:stop]
    for i in range(ps.size):
        g = gs[i] * scale
        ms[i] = beta1 * ms[i] + (one - beta1) * g
        vs[i] = beta2 * vs[i] + (one - beta2) * g * g
        ps[i] = keep * ps[i] - step_size * ms[i] / (np.sqrt(vs[i] * correction) + eps)


@kernel
def _sum_of_squares_chunks(x: Array, totals: Array, size: int, start: int, stop: int) -> None:
    for chunk in range(start, stop):
        xs, total = x[chunk * size : min((chunk + 1) * size, x.shape[0])], x.dtype.type(0)
        for i in range(xs.size):
            total += xs[i] * xs[i]
        if _SMALLEST < total < _LARGEST:
            totals[chunk] = total
        else:  # squares of elements below 1e-19 underflow in float32, and above 1.8e19 they overflow
            wide = 0.0
            for i in range(xs.size):
                wide += np.float64(xs[i]) * np.float64(xs[i])
            totals[chunk] = wide


def adamw_update(parameter: Array, gradient: Array, m: Array, v: Array, factors: AdamWFactors) -> None:
    """Update `parameter`, `m` and `v` (all flat, same size) in place."""
    with np.errstate(over="ignore"):  # a huge rate becomes infinite; Optimizer.step then refuses the weights
        scalars = AdamWFactors(*np.array(factors, parameter.dtype))
    over_rows(lambda start, stop: _adamw_range(parameter, gradient, m, v, scalars, start, stop), parameter.size, 8)


def sum_of_squares(x: Array) -> float:
    """Return the sum of squares of a flat array; the sums of chunks are added in float64, always in one order.

    It is right for any float32 elements, from 1e-45 to 3e38; of float64 elements the squares must be float64 numbers.
    """
    totals = np.empty(-(-x.size // _CHUNK))
    over_rows(lambda start, stop: _sum_of_squares_chunks(x, totals, _CHUNK, start, stop), len(totals), 2 * _CHUNK)
    return float(totals.sum())


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
def step(w: Array, update: Array, size: float, keep: float) -> None:
    """Set w to keep w - size update.  Shapes: (N,)."""
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
