"""RMSNorm and LayerNorm over rows."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

_CHUNK = 64  # rows whose weight gradients are added together before the chunks are added in order


@kernel
def _rms_norm_rows(x: Array, weight: Array, y: Array, inverse: Array, eps: float, start: int, stop: int) -> None:
    width = x.shape[1]
    one = x.dtype.type(1)
    for i in range(start, stop):
        squares = x.dtype.type(0)
        for j in range(width):
            squares += x[i, j] * x[i, j]
        scale = one / np.sqrt(squares / x.dtype.type(width) + eps)
        inverse[i] = scale
        for j in range(width):
            y[i, j] = x[i, j] * scale * weight[j]


@kernel
def _rms_norm_backward_chunks(
    dy: Array, x: Array, weight: Array, inverse: Array, dx: Array, dw: Array, rows: int, start: int, stop: int
) -> None:
    width = x.shape[1]
    for chunk in range(start, stop):
        for j in range(width):
            dw[chunk, j] = 0
        for i in range(chunk * rows, min((chunk + 1) * rows, x.shape[0])):
            scale = inverse[i]
            dot = x.dtype.type(0)
            for j in range(width):
                dot += dy[i, j] * weight[j] * x[i, j]
            dot *= scale * scale / x.dtype.type(width)
            for j in range(width):
                dw[chunk, j] += dy[i, j] * x[i, j] * scale
                dx[i, j] = scale * (dy[i, j] * weight[j] - x[i, j] * dot)


@kernel
def _layer_norm_rows(
    x: Array, weight: Array, bias: Array, y: Array, mean: Array, inverse: Array, eps: float, start: int, stop: int
) -> None:
    width = x.shape[1]
    one = x.dtype.type(1)
    for i in range(start, stop):
        total = x.dtype.type(0)
        for j in range(width):
            total += x[i, j]
        middle = total / x.dtype.type(width)
        squares = x.dtype.type(0)
        for j in range(width):
            squares += (x[i, j] - middle) * (x[i, j] - middle)
        scale = one / np.sqrt(squares / x.dtype.type(width) + eps)
        mean[i] = middle
        inverse[i] = scale
        for j in range(width):
            y[i, j] = (x[i, j] - middle) * scale * weight[j] + bias[j]


@kernel
def _layer_norm_backward_chunks(
    dy: Array,
    x: Array,
    weight: Array,
    mean: Array,
    inverse: Array,
    dx: Array,
    dw: Array,
    db: Array,
    rows: int,
    start: int,
    stop: int,
) -> None:
    width = x.shape[1]
    for chunk in range(start, stop):
        for j in range(width):
            dw[chunk, j] = 0
            db[chunk, j] = 0
        for i in range(chunk * rows, min((chunk + 1) * rows, x.shape[0])):
            middle, scale = mean[i], inverse[i]
            total = x.dtype.type(0)
            dot = x.dtype.type(0)
            for j in range(width):
                g = dy[i, j] * weight[j]
                total += g
                dot += g * (x[i, j] - middle)
            total /= x.dtype.type(width)
            dot *= scale * scale / x.dtype.type(width)
            for j in range(width):
                centred = x[i, j] - middle
                dw[chunk, j] += dy[i, j] * centred * scale
                db[chunk, j] += dy[i, j]
                dx[i, j] = scale * (dy[i, j] * weight[j] - total - centred * dot)


def rms_norm_forward(x: Array, weight: Array, eps: float) -> tuple[Array, Array]:
    """Return the normalised rows and each row's 1 / root mean square."""
    rows = rows_of(x)
    y, inverse, epsilon = np.empty_like(rows), np.empty(len(rows), x.dtype), x.dtype.type(eps)
    w = rows_of(weight)[0]
    over_rows(lambda a, b: _rms_norm_rows(rows, w, y, inverse, epsilon, a, b), len(rows), 4 * rows.shape[1])
    return y.reshape(x.shape), inverse


def rms_norm_backward(dy: Array, x: Array, weight: Array, inverse: Array) -> tuple[Array, Array]:
    """Return the gradients by input and weight."""
    dy_rows, rows, w = rows_of(dy), rows_of(x), rows_of(weight)[0]
    chunks = -(-len(rows) // _CHUNK)
    dx, dw = np.empty_like(rows), np.empty((chunks, rows.shape[1]), x.dtype)
    over_rows(
        lambda a, b: _rms_norm_backward_chunks(dy_rows, rows, w, inverse, dx, dw, _CHUNK, a, b),
        chunks,
        8 * _CHUNK * rows.shape[1],
    )
    return dx.reshape(x.shape), dw.sum(axis=0)


def layer_norm_forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array]:
    """Return the normalised rows, and each row's mean and 1 / standard deviation."""
    rows = rows_of(x)
    y, mean, inverse = np.empty_like(rows), np.empty(len(rows), x.dtype), np.empty(len(rows), x.dtype)
    w, b, epsilon = rows_of(weight)[0], rows_of(bias)[0], x.dtype.type(eps)
    over_rows(
        lambda start, stop: _layer_norm_rows(rows, w, b, y, mean, inverse, epsilon, start, stop),
        len(rows),
        6 * rows.shape[1],
    )
    return y.reshape(x.shape), mean, inverse


def layer_norm_backward(dy: Array, x: Array, weight: Array, mean: Array, inverse: Array) -> tuple[Array, Array, Array]:
    """Return the gradients by input, weight and bias."""
    dy_rows, rows, w = rows_of(dy), rows_of(x), rows_of(weight)[0]
    chunks = -(-len(rows) // _CHUNK)
    dx = np.empty_like(rows)
    dw, db = np.empty((chunks, rows.shape[1]), x.dtype), np.empty((chunks, rows.shape[1]), x.dtype)
    over_rows(
        lambda start, stop: _layer_norm_backward_chunks(
            dy_rows, rows, w, mean, inverse, dx, dw, db, _CHUNK, start, stop
        ),
        chunks,
        10 * _CHUNK * rows.shape[1],
    )
    return dx.reshape(x.shape), dw.sum(axis=0), db.sum(axis=0)
