"""Twins of the norms, rotary positions, the gradient of an embedding, sums of experts, and updates of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.rowwise.combining import Combination
from minigrad.kernels.rowwise.updates import LIFT, AdamWFactors
from tests.kernels.twin import UNTOUCHED, WIDTHS, Arguments, Array, Twin, numbers, span, untouched


@st.composite
def _rms_norm_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    count, width = draw(st.integers(0, 5)), draw(WIDTHS)
    x, weight = numbers(draw, dtype, count, width), numbers(draw, dtype, width)
    return [x, weight, untouched(x), np.full(count, UNTOUCHED, dtype), dtype(1e-3), *span(draw, count)]


def _rms_norm_rows(x: Array, weight: Array, y: Array, inverse: Array, eps: float, start: int, stop: int) -> None:
    inverse[start:stop] = 1 / np.sqrt((x * x).mean(axis=1) + eps)[start:stop]
    y[start:stop] = (x * inverse[:, None] * weight)[start:stop]


@st.composite
def _layer_norm_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, weight, y, inverse, eps, start, stop = draw(_rms_norm_arguments(dtype))
    return [x, (weight, numbers(draw, dtype, len(weight)), eps), y, untouched(inverse), inverse, start, stop]


def _layer_norm_rows(
    x: Array, parameters: tuple[Any, ...], y: Array, mean: Array, inverse: Array, start: int, stop: int
) -> None:
    weight, bias, eps = parameters
    mean[start:stop] = x.mean(axis=1)[start:stop]
    inverse[start:stop] = 1 / np.sqrt(x.var(axis=1) + eps)[start:stop]
    y[start:stop] = ((x - mean[:, None]) * inverse[:, None] * weight + bias)[start:stop]


@st.composite
def _rms_norm_backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    count, width, rows = draw(st.integers(0, 9)), draw(WIDTHS), draw(st.integers(1, 4))
    dy, x = (numbers(draw, dtype, count, width) for _ in range(2))
    weight, inverse = numbers(draw, dtype, width), np.abs(numbers(draw, dtype, count)) + dtype(0.5)
    chunks = -(-count // rows)
    gradients = untouched(x), np.full((chunks, width), UNTOUCHED, dtype)
    return [dy, (x, weight, inverse), gradients, rows, *span(draw, chunks)]


def _rms_norm_backward_chunks(
    dy: Array, saved: tuple[Array, ...], gradients: tuple[Array, ...], rows: int, start: int, stop: int
) -> None:
    (x, weight, inverse), (dx, dw) = saved, gradients
    for chunk in range(start, stop):
        part = slice(chunk * rows, (chunk + 1) * rows)
        r, g = inverse[part, None], dy[part] * weight
        dx[part] = r * g - x[part] * r**3 * (g * x[part]).mean(axis=1, keepdims=True)
        dw[chunk] = (dy[part] * x[part] * r).sum(axis=0)


@st.composite
def _layer_norm_backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    dy, (x, weight, inverse), (dx, dw), rows, start, stop = draw(_rms_norm_backward_arguments(dtype))
    return [dy, (x, weight, x.mean(axis=1), inverse), (dx, dw, untouched(dw)), rows, start, stop]


def _layer_norm_backward_chunks(
    dy: Array, saved: tuple[Array, ...], gradients: tuple[Array, ...], rows: int, start: int, stop: int
) -> None:
    x, weight, mean, inverse = saved
    dx, dw, db = gradients
    centred = x - mean[:, None], weight, inverse
    _rms_norm_backward_chunks(dy, centred, (dx, dw), rows, start, stop)
    for chunk in range(start, stop):
        part = slice(chunk * rows, (chunk + 1) * rows)
        dx[part] -= inverse[part, None] * (dy[part] * weight).mean(axis=1, keepdims=True)
        db[chunk] = dy[part].sum(axis=0)


@st.composite
def _rotary_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    count, heads, half = (draw(st.integers(low, 4)) for low in (0, 1, 1))
    x = numbers(draw, dtype, count, heads * 2 * half)
    angles = numbers(draw, np.float64, 6, half)
    positions = np.array(draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)), np.int64)
    direction = dtype(draw(st.sampled_from([-1, 1])))
    tables = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
    return [x, (*tables, positions, direction, draw(st.booleans())), untouched(x), *span(draw, count)]


def _rotary_rows(x: Array, rotation: tuple[Any, ...], y: Array, start: int, stop: int) -> None:
    cosine, sine, positions, direction, interleaved = rotation
    half = cosine.shape[1]
    heads = x.reshape(len(x), x.shape[1] // (2 * half), 2 * half)
    first, far = (2 * np.arange(half), 1) if interleaved else (np.arange(half), half)
    rotated = (heads[..., first] + 1j * heads[..., first + far]) * (cosine + 1j * direction * sine)[positions][:, None]
    result = np.empty_like(heads)
    result[..., first], result[..., first + far] = rotated.real, rotated.imag
    y[start:stop] = result.reshape(x.shape)[start:stop]


@st.composite
def _scatter_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    count, width, size = draw(st.integers(0, 8)), draw(WIDTHS), draw(st.integers(1, 4))
    ids = np.array(draw(st.lists(st.integers(0, size - 1), min_size=count, max_size=count)), np.int64)
    return [numbers(draw, dtype, count, width), ids, numbers(draw, dtype, size, width), *span(draw, width)]


def _scatter_add_columns(dy: Array, ids: Array, dw: Array, start: int, stop: int) -> None:
    np.add.at(dw[:, start:stop], ids, dy[:, start:stop])


@st.composite
def _adamw_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    size = draw(st.integers(0, 40))
    parameter, gradient, m = (numbers(draw, dtype, size) for _ in range(3))
    v = np.abs(numbers(draw, dtype, size))
    factors = AdamWFactors(*np.array([0.9, 0.95, 0.01, 1.5, 1e-8, 0.99, 0.5], dtype))
    return [parameter, gradient, m, v, factors, *span(draw, size)]


def _adamw_range(
    parameter: Array, gradient: Array, m: Array, v: Array, factors: AdamWFactors, start: int, stop: int
) -> None:
    beta1, beta2, step_size, correction, eps, keep, clip = factors
    p = slice(start, stop)
    g = gradient[p] * clip
    m[p] = beta1 * m[p] + (1 - beta1) * g
    v[p] = beta2 * v[p] + (1 - beta2) * g**2
    parameter[p] = keep * parameter[p] - step_size * m[p] / (np.sqrt(v[p] * correction) + eps)


@st.composite
def _squares_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    size, chunk = draw(st.integers(0, 40)), draw(st.integers(1, 9))
    chunks = -(-size // chunk)
    return [numbers(draw, dtype, size), np.full(chunks, UNTOUCHED), chunk, *span(draw, chunks)]


def _sum_of_squares_chunks(x: Array, totals: Array, size: int, start: int, stop: int) -> None:
    for chunk in range(start, stop):
        totals[chunk] = (x[chunk * size : (chunk + 1) * size].astype(np.float64) ** 2).sum()


@st.composite
def _combine_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    rows, each, width = draw(st.integers(0, 4)), draw(st.integers(1, 3)), draw(WIDTHS)
    places = np.random.default_rng(draw(st.integers(0, 99))).permutation(rows * each).reshape(rows, each)
    given = Combination(numbers(draw, dtype, rows * each, width), numbers(draw, dtype, rows, each), places)
    return [given, np.full((rows, width), UNTOUCHED, dtype), *span(draw, rows)]


def _combine_rows(given: Combination, y: Array, start: int, stop: int) -> None:
    y[start:stop] = (given.gates[:, :, None] * given.parts[given.places]).sum(axis=1)[start:stop]


@st.composite
def _combine_backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    given, y, start, stop = draw(_combine_arguments(dtype))
    dy = numbers(draw, dtype, *y.shape)
    return [dy, given, untouched(given.parts), untouched(given.gates), start, stop]


def _combine_backward_rows(dy: Array, given: Combination, dparts: Array, dgates: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        dparts[given.places[i]] = given.gates[i, :, None] * dy[i]
        dgates[i] = given.parts[given.places[i]] @ dy[i]


@st.composite
def _momentum_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    size, share = draw(st.integers(0, 70)), st.floats(0, 1)
    m, gradient = (numbers(draw, dtype, size) for _ in range(2))
    return [m, gradient, draw(share), draw(share), untouched(m)]


def _add_gradient(m: Array, gradient: Array, scale: float, mu: float, ahead: Array) -> bool:
    m[...] = mu * m + (1 - mu) * scale * gradient
    ahead[...] = LIFT * (mu * m + (1 - mu) * scale * gradient)
    return not (scale * gradient.astype(np.float64)).any()


@st.composite
def _step_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    size, share = draw(st.integers(0, 70)), st.floats(0, 1)
    return [numbers(draw, dtype, size), numbers(draw, dtype, size), draw(share), draw(share)]


def _step(w: Array, update: Array, size: float, keep: float) -> None:
    w[...] = keep * w - size * update


TWINS: dict[str, Twin] = {
    "rowwise.updates._add_gradient": Twin(_momentum_arguments, _add_gradient),
    "rowwise.updates.step": Twin(_step_arguments, _step),
    "rowwise.updates._adamw_range": Twin(_adamw_arguments, _adamw_range),
    "rowwise.updates._sum_of_squares_chunks": Twin(_squares_arguments, _sum_of_squares_chunks),
    "rowwise.combining._combine_rows": Twin(_combine_arguments, _combine_rows),
    "rowwise.combining._combine_backward_rows": Twin(_combine_backward_arguments, _combine_backward_rows),
    "rowwise.embedding._scatter_add_columns": Twin(_scatter_arguments, _scatter_add_columns),
    "rowwise.norm._rms_norm_rows": Twin(_rms_norm_arguments, _rms_norm_rows),
    "rowwise.norm._rms_norm_backward_chunks": Twin(_rms_norm_backward_arguments, _rms_norm_backward_chunks),
    "rowwise.norm._layer_norm_rows": Twin(_layer_norm_arguments, _layer_norm_rows),
    "rowwise.norm._layer_norm_backward_chunks": Twin(_layer_norm_backward_arguments, _layer_norm_backward_chunks),
    "rowwise.rotary._rotary_rows": Twin(_rotary_arguments, _rotary_rows),
}
