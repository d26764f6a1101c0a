"""The two gates of Wiola: the logistic function of a gate scales each element of an input, or mixes two inputs."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import exact, kernel
from minigrad.kernels.rows import rows_of, share_rows
from minigrad.kernels.rowwise.exponential import exp
from minigrad.typing import Array


@kernel
def _sigmoid_gate_rows(x: Array, gate: Array, y: Array, start: int, stop: int) -> None:
    one = x.dtype.type(1)
    for i in range(start, stop):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] / (one + exp(-gate[i, j]))


@kernel
def _sigmoid_gate_backward_rows(
    dy: Array, x: Array, gate: Array, dx: Array, dgate: Array, start: int, stop: int
) -> None:
    one = x.dtype.type(1)
    for i in range(start, stop):
        for j in range(x.shape[1]):
            sigmoid = one / (one + exp(-gate[i, j]))
            dx[i, j] = dy[i, j] * sigmoid
            dgate[i, j] = dy[i, j] * x[i, j] * sigmoid * (one - sigmoid)


@exact
def _blend_rows(a: Array, b: Array, gate: Array, y: Array, start: int, stop: int) -> None:
    # Exact, because the compiler would make b + share * (a - b) of it, which is NaN where b is infinite.
    one = a.dtype.type(1)
    for i in range(start, stop):
        for j in range(a.shape[1]):
            share = one / (one + exp(-gate[i, j]))
            y[i, j] = share * a[i, j] + (one - share) * b[i, j]


@kernel
def _blend_backward_rows(
    dy: Array, inputs: tuple[Array, ...], gradients: tuple[Array, ...], start: int, stop: int
) -> None:
    (a, b, gate), (da, db, dgate), one = inputs, gradients, dy.dtype.type(1)
    for i in range(start, stop):
        for j in range(a.shape[1]):
            share = one / (one + exp(-gate[i, j]))
            da[i, j] = dy[i, j] * share
            db[i, j] = dy[i, j] * (one - share)
            dgate[i, j] = dy[i, j] * (a[i, j] - b[i, j]) * share * (one - share)


def sigmoid_gate_forward(x: Array, gate: Array) -> Array:
    """Return x times the logistic function of the gate, element by element."""
    rows = rows_of(x)
    y = np.empty_like(rows)
    share_rows(_sigmoid_gate_rows, 10, rows, rows_of(gate), y)
    return y.reshape(x.shape)


def sigmoid_gate_backward(dy: Array, x: Array, gate: Array) -> tuple[Array, Array]:
    """Return the gradients of x and gate."""
    rows = rows_of(x)
    dx, dgate = np.empty_like(rows), np.empty_like(rows)
    share_rows(_sigmoid_gate_backward_rows, 10, rows_of(dy), rows, rows_of(gate), dx, dgate)
    return dx.reshape(x.shape), dgate.reshape(x.shape)


def blend_forward(a: Array, b: Array, gate: Array) -> Array:
    """Return a mixture of a and b, element by element; the share of a is the logistic function of the gate."""
    rows = rows_of(a)
    y = np.empty_like(rows)
    share_rows(_blend_rows, 10, rows, rows_of(b), rows_of(gate), y)
    return y.reshape(a.shape)


def blend_backward(dy: Array, a: Array, b: Array, gate: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of a, b and gate."""
    slopes, inputs = rows_of(dy), (rows_of(a), rows_of(b), rows_of(gate))
    da, db, dgate = np.empty_like(slopes), np.empty_like(slopes), np.empty_like(slopes)
    share_rows(_blend_backward_rows, 10, slopes, inputs, (da, db, dgate))
    return da.reshape(a.shape), db.reshape(a.shape), dgate.reshape(a.shape)
