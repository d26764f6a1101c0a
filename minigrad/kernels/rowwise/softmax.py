"""Softmax and its logarithm over rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.rowwise.maximum import LANES, row_maximum
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


@kernel
def _softmax_rows(x: Array, y: Array, start: int, stop: int) -> None:
    width = x.shape[1]
    lanes = np.empty(LANES, x.dtype)
    for i in range(start, stop):
        largest = row_maximum(x, i, width, lanes)
        # A row in which everything is -inf has no distribution: its probabilities are 0. (A NaN stays NaN.)
        if largest == -np.inf:
            for j in range(width):
                y[i, j] = exp(x[i, j])
            continue
        total = x.dtype.type(0)
        for j in range(width):
            e = exp(x[i, j] - largest)
            y[i, j] = e
            total += e
        scale = x.dtype.type(1) / total
        for j in range(width):
            y[i, j] *= scale


@kernel
def _softmax_backward_rows(dy: Array, y: Array, dx: Array, start: int, stop: int) -> None:
    width = y.shape[1]
    for i in range(start, stop):
        dot = y.dtype.type(0)
        for j in range(width):
            dot += dy[i, j] * y[i, j]
        for j in range(width):
            dx[i, j] = y[i, j] * (dy[i, j] - dot)


@kernel
def _log_softmax_rows(x: Array, y: Array, start: int, stop: int) -> None:
    width = x.shape[1]
    lanes = np.empty(LANES, x.dtype)
    for i in range(start, stop):
        largest = row_maximum(x, i, width, lanes)
        # The logarithms of the zeros that softmax gives for such a row are -inf, as the row itself. (A NaN stays NaN.)
        if largest == -np.inf:
            for j in range(width):
                y[i, j] = x[i, j]
            continue
        total = x.dtype.type(0)
        for j in range(width):
            total += exp(x[i, j] - largest)
        shift = largest + np.log(total)
        for j in range(width):
            y[i, j] = x[i, j] - shift


@kernel
def _log_softmax_backward_rows(dy: Array, y: Array, dx: Array, start: int, stop: int) -> None:
    width = y.shape[1]
    for i in range(start, stop):
        total = y.dtype.type(0)
        for j in range(width):
            total += dy[i, j]
        for j in range(width):
            dx[i, j] = dy[i, j] - exp(y[i, j]) * total


def _along(axis: int, loop: Any, *arrays: Array) -> Array:
    """Move `axis` last, so that it is a row, run the loop, and move the axis back."""
    moved = [np.moveaxis(array, axis, -1) for array in arrays]
    shape = moved[0].shape
    rows = [rows_of(array) for array in moved]
    result = np.empty(rows[0].shape, rows[0].dtype)
    over_rows(lambda start, stop: loop(*rows, result, start, stop), *_work(result))
    return np.moveaxis(result.reshape(shape), -1, axis)


def _work(rows: Array) -> tuple[int, int]:
    return rows.shape[0], 4 * rows.shape[1]


def softmax_forward(x: Array, axis: int) -> Array:
    """Return the softmax of `x` along `axis`."""
    return _along(axis, _softmax_rows, x)


def softmax_backward(dy: Array, y: Array, axis: int) -> Array:
    """Return the gradient of softmax, from its result `y`."""
    return _along(axis, _softmax_backward_rows, dy, y)


def log_softmax_forward(x: Array, axis: int) -> Array:
    """Return the logarithm of the softmax of `x` along `axis`."""
    return _along(axis, _log_softmax_rows, x)


def log_softmax_backward(dy: Array, y: Array, axis: int) -> Array:
    """Return the gradient of log-softmax, from its result `y`."""
    return _along(axis, _log_softmax_backward_rows, dy, y)
