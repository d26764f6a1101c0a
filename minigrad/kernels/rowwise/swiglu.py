"""SwiGLU: the product of one input with the SiLU of another, and its gradient."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def _swiglu_rows(gate: Array, up: Array, y: Array, start: int, stop: int) -> None:
    one = gate.dtype.type(1)
    for i in range(start, stop):
        for j in range(gate.shape[1]):
            y[i, j] = gate[i, j] / (one + exp(-gate[i, j])) * up[i, j]


@kernel
def _swiglu_backward_rows(dy: Array, gate: Array, up: Array, dgate: Array, dup: Array, start: int, stop: int) -> None:
    one = gate.dtype.type(1)
    for i in range(start, stop):
        for j in range(gate.shape[1]):
            g = gate[i, j]
            sigmoid = one / (one + exp(-g))
            dup[i, j] = dy[i, j] * g * sigmoid
            dgate[i, j] = dy[i, j] * up[i, j] * sigmoid * (one + g * (one - sigmoid))


def swiglu_forward(gate: Array, up: Array) -> Array:
    """Return silu(gate) * up, element by element."""
    g, u = rows_of(gate), rows_of(up)
    y = np.empty_like(g)
    over_rows(lambda start, stop: _swiglu_rows(g, u, y, start, stop), len(g), 8 * g.shape[1])
    return y.reshape(gate.shape)


def swiglu_backward(dy: Array, gate: Array, up: Array) -> tuple[Array, Array]:
    """Return the gradients of gate and up; the exponential is computed again, not stored."""
    d, g, u = rows_of(dy), rows_of(gate), rows_of(up)
    dgate, dup = np.empty_like(g), np.empty_like(g)
    over_rows(lambda a, b: _swiglu_backward_rows(d, g, u, dgate, dup, a, b), len(g), 12 * g.shape[1])
    return dgate.reshape(gate.shape), dup.reshape(up.shape)
