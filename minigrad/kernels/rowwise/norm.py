"""RMSNorm and LayerNorm over rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of, share_rows
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

_CHUNK = 64  # rows whose weight gradients are summed together, before the sums of the chunks are added in order


@kernel
def _rms_norm_rows(x: Array, weight: Array, y: Array, inverse: Array, eps: float, start: int, stop: int) -> None:
    width, one = x.shape[1], x.dtype.type(1)
    for i in range(start, stop):
        squares = x.dtype.type(0)
        for j in range(width):
            squares += x[i, j] * x[i, j]
        square = squares / x.dtype.type(width) + eps
        # A row whose squares overflow is NaN: divided by infinity, large finite values would silently become 0.
        scale = one / np.sqrt(square) if square < np.inf else x.dtype.type(np.nan)
        inverse[i] = scale
        for j in range(width):
            y[i, j] = x[i, j] * scale * weight[j]


@kernel
def _rms_norm_backward_chunks(
    dy: Array, saved: tuple[Array, ...], gradients: tuple[Array, ...], rows: int, start: int, stop: int
) -> None:
    """Write the gradients of chunks start to stop, of `rows` rows each: of dw (chunks, C) a sum for each chunk."""
    (x, weight, inverse), (dx, dw) = saved, gradients
    width = x.shape[1]
    for chunk in range(start, stop):
        for j in range(width):
            dw[chunk, j] = 0
        for i in range(chunk * rows, min((chunk + 1) * rows, x.shape[0])):
            scale, dot = inverse[i], x.dtype.type(0)
            for j in range(width):
                dot += dy[i, j] * weight[j] * x[i, j]
            dot *= scale * scale / x.dtype.type(width)
            for j in range(width):
                dw[chunk, j] += dy[i, j] * x[i, j] * scale
                dx[i, j] = scale * (dy[i, j] * weight[j] - x[i, j] * dot)


@kernel
def _layer_norm_rows(
    x: Array, parameters: tuple[Array, Array, float], y: Array, mean: Array, inverse: Array, start: int, stop: int
) -> None:
    (weight, bias, eps), width, one = parameters, x.shape[1], x.dtype.type(1)
    for i in range(start, stop):
        total, squares = x.dtype.type(0), x.dtype.type(0)
        for j in range(width):
            total += x[i, j]
        centre = total / x.dtype.type(width)
        for j in range(width):
            squares += (x[i, j] - centre) * (x[i, j] - centre)
        square = squares / x.dtype.type(width) + eps
        scale = one / np.sqrt(square) if square < np.inf else x.dtype.type(np.nan)
        mean[i], inverse[i] = centre, scale
        for j in range(width):
            y[i, j] = (x[i, j] - centre) * scale * weight[j] + bias[j]


@kernel
def _layer_norm_backward_chunks(
    dy: Array, saved: tuple[Array, ...], gradients: tuple[Array, ...], rows: int, start: int, stop: int
) -> None:
    """Write the gradients of chunks start to stop, of `rows` rows each."""
    (x, weight, mean, inverse), (dx, dw, db) = saved, gradients
    width = x.shape[1]
    for chunk in range(start, stop):
        for j in range(width):
            dw[chunk, j] = 0
            db[chunk, j] = 0
        for i in range(chunk * rows, min((chunk + 1) * rows, x.shape[0])):
            centre, scale, total, dot = mean[i], inverse[i], x.dtype.type(0), x.dtype.type(0)
            for j in range(width):
                g = dy[i, j] * weight[j]
                total += g
                dot += g * (x[i, j] - centre)
            total /= x.dtype.type(width)
            dot *= scale * scale / x.dtype.type(width)
            for j in range(width):
                centred = x[i, j] - centre
                dw[chunk, j] += dy[i, j] * centred * scale
                db[chunk, j] += dy[i, j]
                dx[i, j] = scale * (dy[i, j] * weight[j] - total - centred * dot)


def rms_norm_forward(x: Array, weight: Array, eps: float) -> tuple[Array, Array]:
    """Return the normalised rows and each row's 1 / root mean square.

    Shapes: x (..., C), weight (C,) -> (..., C), (rows,).
    """
    rows = rows_of(x)
    y, inverse = np.empty_like(rows), np.empty(len(rows), x.dtype)
    share_rows(_rms_norm_rows, 4, rows, rows_of(weight)[0], y, inverse, x.dtype.type(eps))
    return y.reshape(x.shape), inverse


def rms_norm_backward(dy: Array, x: Array, weight: Array, inverse: Array) -> tuple[Array, Array]:
    """Return the gradients of input and weight.

    Shapes: dy and x (..., C), weight (C,), inverse (rows,) -> (..., C), (C,).
    """
    dx, dw = _backward(_rms_norm_backward_chunks, 8, dy, (rows_of(x), rows_of(weight)[0], inverse), 1)
    return dx, dw


def layer_norm_forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array]:
    """Return the normalised rows, and each row's mean and 1 / standard deviation.

    Shapes: x (..., C), weight and bias (C,) -> (..., C), (rows,), (rows,).
    """
    rows, parameters = rows_of(x), (rows_of(weight)[0], rows_of(bias)[0], x.dtype.type(eps))
    y, mean, inverse = np.empty_like(rows), np.empty(len(rows), x.dtype), np.empty(len(rows), x.dtype)
    share_rows(_layer_norm_rows, 6, rows, parameters, y, mean, inverse)
    return y.reshape(x.shape), mean, inverse


def layer_norm_backward(dy: Array, x: Array, weight: Array, mean: Array, inverse: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of input, weight and bias.

    Shapes: dy and x (..., C), weight (C,), mean and inverse (rows,) -> (..., C), (C,), (C,).
    """
    dx, dw, db = _backward(_layer_norm_backward_chunks, 10, dy, (rows_of(x), rows_of(weight)[0], mean, inverse), 2)
    return dx, dw, db


def _backward(loop: Any, work: int, dy: Array, saved: tuple[Array, ...], parameters: int) -> list[Array]:
    """Return the gradients of the input and of some parameters; `work` is that of an element."""
    slopes = rows_of(dy)
    chunks, width = -(-len(slopes) // _CHUNK), slopes.shape[1]
    sums = [np.empty((chunks, width), slopes.dtype) for _ in range(parameters)]
    gradients = (np.empty_like(slopes), *sums)
    over_rows(lambda a, b: loop(slopes, saved, gradients, _CHUNK, a, b), chunks, work * _CHUNK * width)
    return [gradients[0].reshape(dy.shape), *(each.sum(axis=0) for each in sums)]
