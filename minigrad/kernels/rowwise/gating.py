"""The gate of SwiGLU: the SiLU of one input scales each element of the other."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of, share_rows
from minigrad.kernels.rowwise.exponential import exp
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
    """Return silu(gate) * up, element by element.  Shapes: gate and up (...) -> (...)."""
    rows = rows_of(gate)
    y = np.empty_like(rows)
    share_rows(_swiglu_rows, 8, rows, rows_of(up), y)
    return y.reshape(gate.shape)


def swiglu_backward(dy: Array, gate: Array, up: Array) -> tuple[Array, Array]:
    """Return the gradients of gate and up; the exponential is computed again, not stored.

    Shapes: dy, gate and up (...) -> (...) each.
    """
    rows = rows_of(gate)
    dgate, dup = np.empty_like(rows), np.empty_like(rows)
    share_rows(_swiglu_backward_rows, 12, rows_of(dy), rows, rows_of(up), dgate, dup)
    return dgate.reshape(gate.shape), dup.reshape(up.shape)
