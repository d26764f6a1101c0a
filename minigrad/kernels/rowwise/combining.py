"""Weighted sums of a few rows that lie in other places: what each token gets from its experts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


class Combination(NamedTuple):
    """The rows that are added up, and for each result their weights and their places."""

    parts: Array  # (rows * k, C)
    gates: Array  # (rows, k)
    places: Array  # (rows, k) int64


@kernel
def _combine_rows(given: Combination, y: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        row = y[i]
        row[:] = 0
        for n in range(given.places.shape[1]):
            gate, part = given.gates[i, n], given.parts[given.places[i, n]]
            for j in range(row.size):
                row[j] += gate * part[j]


@kernel
def _combine_backward_rows(dy: Array, given: Combination, dparts: Array, dgates: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        row = dy[i]
        for n in range(given.places.shape[1]):
            gate, place, total = given.gates[i, n], given.places[i, n], dy.dtype.type(0)
            part, dpart = given.parts[place], dparts[place]
            for j in range(row.size):
                dpart[j] = gate * row[j]
                total += part[j] * row[j]
            dgates[i, n] = total


def combine_forward(given: Combination) -> Array:
    """Return for each row the sum of its parts times their gates, (rows, C)."""
    y = np.empty((len(given.gates), given.parts.shape[1]), given.parts.dtype)
    over_rows(lambda start, stop: _combine_rows(given, y, start, stop), len(y), 2 * given.gates.shape[1] * y.shape[1])
    return y


def combine_backward(dy: Array, given: Combination) -> tuple[Array, Array]:
    """Return the gradients of the parts and the gates; each part is a part of one row."""
    rows, dparts, dgates = rows_of(dy).reshape(dy.shape), np.empty_like(given.parts), np.empty_like(given.gates)
    work = 4 * given.gates.shape[1] * given.parts.shape[1]
    over_rows(lambda a, b: _combine_backward_rows(rows, given, dparts, dgates, a, b), len(given.gates), work)
    return dparts, dgates
