"""RMSNorm and LayerNorm over rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

_CHUNK = 64  # rows whose weight gradients are summed together, before the sums of the chunks are added in order


class RMSNormSaved(NamedTuple):
    """What the backward pass of RMSNorm reads of the forward pass."""

    x: Array  # (rows, C)
    weight: Array  # (C,)
    inverse: Array  # (rows,): 1 / root mean square


class RMSNormGradients(NamedTuple):
    """The gradients of the input and, a sum for each chunk of rows, of the weight."""

    dx: Array  # (rows, C)
    dw: Array  # (chunks, C)


class LayerNormParameters(NamedTuple):
    """What LayerNorm multiplies a normalised row by, what it adds, and the constant under the square root."""

    weight: Array  # (C,)
    bias: Array  # (C,)
    eps: float


class LayerNormSaved(NamedTuple):
    """What the backward pass of LayerNorm reads of the forward pass."""

    x: Array  # (rows, C)
    weight: Array  # (C,)
    mean: Array  # (rows,)
    inverse: Array  # (rows,): 1 / standard deviation


class LayerNormGradients(NamedTuple):
    """The gradients of the input and, a sum for each chunk of rows, of the weight and the bias."""

    dx: Array  # (rows, C)
    dw: Array  # (chunks, C)
    db: Array  # (chunks, C)


@kernel
def _rms_norm_rows(x: Array, weight: Array, y: Array, inverse: Array, eps: float, start: int, stop: int) -> None:
    width = x.shape[1]
    one = x.dtype.type(1)
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
    dy: Array, saved: RMSNormSaved, gradients: RMSNormGradients, rows: int, start: int, stop: int
) -> None:
    """Write the gradients of chunks start to stop, of `rows` rows each."""
    x, weight, inverse = saved
    dx, dw = gradients
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
    x: Array, parameters: LayerNormParameters, y: Array, mean: Array, inverse: Array, start: int, stop: int
) -> None:
    weight, bias, eps = parameters
    width = x.shape[1]
    one = x.dtype.type(1)
    for i in range(start, stop):
        total = x.dtype.type(0)
        for j in range(width):
            total += x[i, j]
        centre = total / x.dtype.type(width)
        squares = x.dtype.type(0)
        for j in range(width):
            squares += (x[i, j] - centre) * (x[i, j] - centre)
        scale = one / np.sqrt(squares / x.dtype.type(width) + eps)
        mean[i] = centre
        inverse[i] = scale
        for j in range(width):
            y[i, j] = (x[i, j] - centre) * scale * weight[j] + bias[j]


@kernel
def _layer_norm_backward_chunks(
    dy: Array, saved: LayerNormSaved, gradients: LayerNormGradients, rows: int, start: int, stop: int
) -> None:
    """Write the gradients of chunks start to stop, of `rows` rows each."""
    x, weight, mean, inverse = saved
    dx, dw, db = gradients
    width = x.shape[1]
    for chunk in range(start, stop):
        for j in range(width):
            dw[chunk, j] = 0
            db[chunk, j] = 0
        for i in range(chunk * rows, min((chunk + 1) * rows, x.shape[0])):
            centre, scale = mean[i], inverse[i]
            total = x.dtype.type(0)
            dot = x.dtype.type(0)
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
    """Return the normalised rows and each row's 1 / root mean square."""
    rows = rows_of(x)
    y, inverse, epsilon = np.empty_like(rows), np.empty(len(rows), x.dtype), x.dtype.type(eps)
    w = rows_of(weight)[0]
    over_rows(lambda a, b: _rms_norm_rows(rows, w, y, inverse, epsilon, a, b), len(rows), 4 * rows.shape[1])
    return y.reshape(x.shape), inverse


def rms_norm_backward(dy: Array, x: Array, weight: Array, inverse: Array) -> tuple[Array, Array]:
    """Return the gradients of input and weight."""
    slopes, saved = rows_of(dy), RMSNormSaved(rows_of(x), rows_of(weight)[0], inverse)
    chunks, width = -(-len(slopes) // _CHUNK), slopes.shape[1]
    gradients = RMSNormGradients(np.empty_like(slopes), np.empty((chunks, width), x.dtype))
    over_rows(
        lambda start, stop: _rms_norm_backward_chunks(slopes, saved, gradients, _CHUNK, start, stop),
        chunks,
        8 * _CHUNK * width,
    )
    return gradients.dx.reshape(x.shape), gradients.dw.sum(axis=0)


def layer_norm_forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array]:
    """Return the normalised rows, and each row's mean and 1 / standard deviation."""
    rows, parameters = rows_of(x), LayerNormParameters(rows_of(weight)[0], rows_of(bias)[0], x.dtype.type(eps))
    y, mean, inverse = np.empty_like(rows), np.empty(len(rows), x.dtype), np.empty(len(rows), x.dtype)
    over_rows(
        lambda start, stop: _layer_norm_rows(rows, parameters, y, mean, inverse, start, stop),
        len(rows),
        6 * rows.shape[1],
    )
    return y.reshape(x.shape), mean, inverse


def layer_norm_backward(dy: Array, x: Array, weight: Array, mean: Array, inverse: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of input, weight and bias."""
    slopes, saved = rows_of(dy), LayerNormSaved(rows_of(x), rows_of(weight)[0], mean, inverse)
    chunks, width = -(-len(slopes) // _CHUNK), slopes.shape[1]
    dw, db = np.empty((chunks, width), x.dtype), np.empty((chunks, width), x.dtype)
    gradients = LayerNormGradients(np.empty_like(slopes), dw, db)
    over_rows(
        lambda start, stop: _layer_norm_backward_chunks(slopes, saved, gradients, _CHUNK, start, stop),
        chunks,
        10 * _CHUNK * width,
    )
    return gradients.dx.reshape(x.shape), dw.sum(axis=0), db.sum(axis=0)
