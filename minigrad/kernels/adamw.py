"""AdamW, and the norm that clipping needs: one pass over a flat array of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.kernels import kernel
from minigrad.kernels.threads import over_rows

Array = NDArray[Any]

_CHUNK = 1 << 14  # numbers whose squares are added together before the chunks are added in order


@kernel
def _adamw_range(
    parameter: Array,
    gradient: Array,
    m: Array,
    v: Array,
    numbers: Array,
    start: int,
    stop: int,
) -> None:
    one = parameter.dtype.type(1)
    beta1, beta2, step_size, correction = numbers[0], numbers[1], numbers[2], numbers[3]
    eps, keep, clip = numbers[4], numbers[5], numbers[6]
    # Pieces counted from 0: an index from `start` might be negative, and the compiler would gather one by one.
    ps, gs, ms, vs = parameter[start:stop], gradient[start:stop], m[start:stop], v[start:stop]
    for i in range(ps.size):
        g = gs[i] * clip
        ms[i] = beta1 * ms[i] + (one - beta1) * g
        vs[i] = beta2 * vs[i] + (one - beta2) * g * g
        ps[i] = keep * ps[i] - step_size * ms[i] / (np.sqrt(vs[i] * correction) + eps)


@kernel
def _sum_of_squares_chunks(x: Array, totals: Array, size: int, start: int, stop: int) -> None:
    for chunk in range(start, stop):
        total = x.dtype.type(0)
        for i in range(chunk * size, min((chunk + 1) * size, x.shape[0])):
            total += x[i] * x[i]
        totals[chunk] = total


def adamw_update(
    parameter: Array,
    gradient: Array,
    m: Array,
    v: Array,
    *,
    beta1: float,
    beta2: float,
    step_size: float,
    correction: float,
    eps: float,
    keep: float,
    clip: float,
) -> None:
    """Update `parameter`, `m` and `v` (all flat, same size) in place.

    `step_size` is the learning rate over 1 - beta1^t, `correction` is 1 / (1 - beta2^t), `keep` is 1 minus learning
    rate times weight decay, and `clip` multiplies the gradient first.
    """
    numbers = np.array([beta1, beta2, step_size, correction, eps, keep, clip], parameter.dtype)
    over_rows(lambda start, stop: _adamw_range(parameter, gradient, m, v, numbers, start, stop), parameter.size, 8)


def sum_of_squares(x: Array) -> float:
    """Return the sum of squares of a flat array, the chunks added in float64 and always in the same order."""
    totals = np.empty(-(-x.size // _CHUNK), x.dtype)
    over_rows(lambda start, stop: _sum_of_squares_chunks(x, totals, _CHUNK, start, stop), len(totals), 2 * _CHUNK)
    return float(totals.sum(dtype=np.float64))
