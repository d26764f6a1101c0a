"""Gates: a logistic function decides, number by number, how much passes, or which of two streams."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
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
            opening = one / (one + exp(-gate[i, j]))
            dx[i, j] = dy[i, j] * opening
            dgate[i, j] = dy[i, j] * x[i, j] * opening * (one - opening)


@kernel
def _blend_rows(a: Array, b: Array, gate: Array, y: Array, start: int, stop: int) -> None:
    one = a.dtype.type(1)
    for i in range(start, stop):
        for j in range(a.shape[1]):
            y[i, j] = b[i, j] + (a[i, j] - b[i, j]) / (one + exp(-gate[i, j]))


@kernel
def _blend_backward_rows(
    dy: Array, a: Array, b: Array, gate: Array, da: Array, db: Array, dgate: Array, start: int, stop: int
) -> None:
    one = a.dtype.type(1)
    for i in range(start, stop):
        for j in range(a.shape[1]):
            share = one / (one + exp(-gate[i, j]))
            da[i, j] = dy[i, j] * share
            db[i, j] = dy[i, j] * (one - share)
            dgate[i, j] = dy[i, j] * (a[i, j] - b[i, j]) * share * (one - share)


def _run(loop: Any, inputs: tuple[Array, ...], results: int) -> tuple[Array, ...]:
    rows = [rows_of(each) for each in inputs]
    made = [np.empty_like(rows[0]) for _ in range(results)]
    over_rows(lambda start, stop: loop(*rows, *made, start, stop), len(rows[0]), 10 * rows[0].shape[1])
    return tuple(each.reshape(inputs[0].shape) for each in made)


def sigmoid_gate_forward(x: Array, gate: Array) -> Array:
    """x times the logistic function of the gate, element by element."""
    return _run(_sigmoid_gate_rows, (x, gate), 1)[0]


def sigmoid_gate_backward(dy: Array, x: Array, gate: Array) -> tuple[Array, ...]:
    """Gradients by x and gate."""
    return _run(_sigmoid_gate_backward_rows, (dy, x, gate), 2)


def blend_forward(a: Array, b: Array, gate: Array) -> Array:
    """The share of a that the logistic function of the gate says, and b for the rest."""
    return _run(_blend_rows, (a, b, gate), 1)[0]


def blend_backward(dy: Array, a: Array, b: Array, gate: Array) -> tuple[Array, ...]:
    """Gradients by a, b and gate."""
    return _run(_blend_backward_rows, (dy, a, b, gate), 3)
