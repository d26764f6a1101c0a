"""Gates: the logistic function of a gate scales each element of an input, or mixes two inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minigrad.kernels.jit import exact, kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


class Blend(NamedTuple):
    """The inputs of a blend, or the gradients of them; all have one shape."""

    a: Array
    b: Array
    gate: Array


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
def _blend_rows(inputs: Blend, y: Array, start: int, stop: int) -> None:
    # Exact, because the compiler would make b + share * (a - b) of it, which is NaN where b is infinite.
    a, b, gate = inputs
    one = a.dtype.type(1)
    for i in range(start, stop):
        for j in range(a.shape[1]):
            share = one / (one + exp(-gate[i, j]))
            y[i, j] = share * a[i, j] + (one - share) * b[i, j]


@kernel
def _blend_backward_rows(dy: Array, inputs: Blend, gradients: Blend, start: int, stop: int) -> None:
    a, b, gate = inputs
    da, db, dgate = gradients
    one = a.dtype.type(1)
    for i in range(start, stop):
        for j in range(a.shape[1]):
            share = one / (one + exp(-gate[i, j]))
            da[i, j] = dy[i, j] * share
            db[i, j] = dy[i, j] * (one - share)
            dgate[i, j] = dy[i, j] * (a[i, j] - b[i, j]) * share * (one - share)


def _over_rows_of(rows: Array, loop: Any, *arguments: Any) -> None:
    over_rows(lambda start, stop: loop(*arguments, start, stop), len(rows), 10 * rows.shape[1])


def sigmoid_gate_forward(x: Array, gate: Array) -> Array:
    """Return x times the logistic function of the gate, element by element."""
    rows, gates = rows_of(x), rows_of(gate)
    y = np.empty_like(rows)
    _over_rows_of(rows, _sigmoid_gate_rows, rows, gates, y)
    return y.reshape(x.shape)


def sigmoid_gate_backward(dy: Array, x: Array, gate: Array) -> tuple[Array, Array]:
    """Return the gradients of x and gate."""
    slopes, rows, gates = rows_of(dy), rows_of(x), rows_of(gate)
    dx, dgate = np.empty_like(rows), np.empty_like(rows)
    _over_rows_of(rows, _sigmoid_gate_backward_rows, slopes, rows, gates, dx, dgate)
    return dx.reshape(x.shape), dgate.reshape(x.shape)


def blend_forward(a: Array, b: Array, gate: Array) -> Array:
    """Return a mixture of a and b, element by element; the share of a is the logistic function of the gate."""
    inputs = Blend(rows_of(a), rows_of(b), rows_of(gate))
    y = np.empty_like(inputs.a)
    _over_rows_of(y, _blend_rows, inputs, y)
    return y.reshape(a.shape)


def blend_backward(dy: Array, a: Array, b: Array, gate: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of a, b and gate."""
    slopes, inputs = rows_of(dy), Blend(rows_of(a), rows_of(b), rows_of(gate))
    gradients = Blend(np.empty_like(slopes), np.empty_like(slopes), np.empty_like(slopes))
    _over_rows_of(slopes, _blend_backward_rows, slopes, inputs, gradients)
    return gradients.a.reshape(a.shape), gradients.b.reshape(a.shape), gradients.gate.reshape(a.shape)
