"""GELU, exact and with tanh, and its gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.rowwise.normal_cdf import normal
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

# The loops below index slices from 0. An index from `start` might be negative, which counts from the end; then the
# compiler gathers the elements one by one, and the loop takes twice as long.


@kernel
def _gelu_exact_rows(x: Array, y: Array, start: int, stop: int) -> None:
    xs, ys = x[start:stop], y[start:stop]
    for i in range(xs.size):
        probability, _ = normal(xs[i])
        ys[i] = xs[i] * probability


@kernel
def _gelu_exact_backward_rows(dy: Array, x: Array, dx: Array, start: int, stop: int) -> None:
    xs, dys, dxs = x[start:stop], dy[start:stop], dx[start:stop]
    for i in range(xs.size):
        v = xs[i]
        # d/dx x Phi(x) = Phi(x) + x phi(x), with the normal density phi.
        probability, density = normal(v)
        dxs[i] = dys[i] * (probability + v * density)


@kernel
def _gelu_tanh_rows(x: Array, y: Array, start: int, stop: int) -> None:
    one, two, cubic = x.dtype.type(1), x.dtype.type(2 * math.sqrt(2 / math.pi)), x.dtype.type(0.044715)
    xs, ys = x[start:stop], y[start:stop]
    for i in range(xs.size):
        v = xs[i]
        # (1 + tanh u) / 2 is the logistic function of 2u: one exponential, and no overflow either way.
        ys[i] = v / (one + exp(-two * (v + cubic * v * v * v)))


@kernel
def _gelu_tanh_backward_rows(dy: Array, x: Array, dx: Array, start: int, stop: int) -> None:
    one, two, cubic = x.dtype.type(1), x.dtype.type(2 * math.sqrt(2 / math.pi)), x.dtype.type(0.044715)
    three, zero = x.dtype.type(3), x.dtype.type(0)
    xs, dys, dxs = x[start:stop], dy[start:stop], dx[start:stop]
    for i in range(xs.size):
        v = xs[i]
        gate = one / (one + exp(-two * (v + cubic * v * v * v)))
        slope = gate * (one - gate)
        # Far from zero the slope of the gate is 0; there v * v may be infinite, and 0 * infinity would be NaN.
        change = v * slope * two * (one + three * cubic * v * v) if slope > zero else zero
        dxs[i] = dys[i] * (gate + change)


def _flat(loop: Any, *arrays: Array) -> Array:
    flat = [rows_of(array, array.size).reshape(-1) for array in arrays]
    result = np.empty_like(flat[0])
    over_rows(lambda start, stop: loop(*flat, result, start, stop), result.size, 16)
    return result.reshape(arrays[0].shape)


def gelu_forward(x: Array, exact: bool) -> Array:
    """Return the GELU of each element: with the error function, or with the tanh that GPT-2 uses.

    Shapes: x (...) -> (...).
    """
    return _flat(_gelu_exact_rows if exact else _gelu_tanh_rows, x)


def gelu_backward(dy: Array, x: Array, exact: bool) -> Array:
    """Return the gradient of GELU with respect to its input.  Shapes: dy and x (...) -> (...)."""
    return _flat(_gelu_exact_backward_rows if exact else _gelu_tanh_backward_rows, dy, x)
