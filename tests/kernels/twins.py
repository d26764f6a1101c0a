"""Every kernel's plain NumPy twin, and what to try both on.

A row of the table holds a strategy for the arguments of one call and a twin with the same arguments. Kernel and twin
get equal copies, and afterwards every array must agree: results where rows were asked for, nothing touched elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from minigrad.kernels.rowwise import exponential
from minigrad.kernels.rowwise import normal_cdf as normal
from minigrad.kernels.rowwise.maximum import LANES

Array = NDArray[Any]
Draw = DrawFn
Arguments = list[Any]

UNTOUCHED = 7.0  # what results hold beforehand
WIDTHS = st.sampled_from([1, 2, 3, 15, 16, 17, 40])


@dataclass(frozen=True)
class Twin:
    """How to call a kernel (`arguments` of a dtype), the same in plain NumPy, and what stands in without Numba.

    `error` is how far off a number may be that a kernel returns, where its relative error has no bound. The last `room`
    arguments are room to work in: what is left there belongs to nobody.
    """

    arguments: Callable[[Any], SearchStrategy[Arguments]]
    twin: Callable[..., Any]
    portable: Callable[..., Any] | None = None
    error: float = 0.0
    room: int = 0


def numbers(draw: Draw, dtype: Any, *shape: int, scale: float = 1.0) -> Array:
    """Draw normal numbers; Hypothesis chooses only the seed, which keeps large arrays cheap."""
    seed = draw(st.integers(0, 2**16))
    return np.random.default_rng(seed).normal(0, scale, shape).astype(dtype)


def _part(draw: Draw, rows: int) -> list[int]:
    return sorted((draw(st.integers(0, rows)), draw(st.integers(0, rows))))


def _like(array: Array) -> Array:
    return np.full_like(array, UNTOUCHED)


@st.composite
def _rows(draw: Draw, dtype: Any, inputs: int, outputs: int, scale: float = 3.0) -> Arguments:
    rows, width = draw(st.integers(0, 5)), draw(WIDTHS)
    given = [numbers(draw, dtype, rows, width, scale=scale) for _ in range(inputs)]
    return [*given, *(np.full((rows, width), UNTOUCHED, dtype) for _ in range(outputs)), *_part(draw, rows)]


def rows(inputs: int, outputs: int) -> Callable[[Any], SearchStrategy[Arguments]]:
    """Return arguments (inputs..., outputs..., start, stop) of one shape."""
    return lambda dtype: _rows(dtype, inputs, outputs)


def flat(inputs: int) -> Callable[[Any], SearchStrategy[Arguments]]:
    """Return arguments (inputs..., output, start, stop), each array one long row."""

    @st.composite
    def arguments(draw: Draw, dtype: Any) -> Arguments:
        size = draw(st.integers(0, 40))
        given = [numbers(draw, dtype, 1, size, scale=2) for _ in range(inputs)]
        return [*given, np.full((1, size), UNTOUCHED, dtype), *_part(draw, size)]

    return arguments


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    result: Array = e / e.sum(axis=-1, keepdims=True)
    return result


def log_sum_exp(x: Array) -> Array:
    largest = x.max(axis=-1, keepdims=True)
    result: Array = (largest + np.log(np.exp(x - largest).sum(axis=-1, keepdims=True)))[..., 0]
    return result


def _softmax_rows(x: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = softmax(x[start:stop])


def _softmax_backward_rows(dy: Array, y: Array, dx: Array, start: int, stop: int) -> None:
    dy, y = dy[start:stop], y[start:stop]
    dx[start:stop] = y * (dy - (dy * y).sum(axis=1, keepdims=True))


def _log_softmax_rows(x: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = x[start:stop] - log_sum_exp(x[start:stop])[:, None]


def _log_softmax_backward_rows(dy: Array, y: Array, dx: Array, start: int, stop: int) -> None:
    dy, y = dy[start:stop], y[start:stop]
    dx[start:stop] = dy - np.exp(y) * dy.sum(axis=1, keepdims=True)


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _swiglu_rows(gate: Array, up: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = (gate * _sigmoid(gate) * up)[start:stop]


def _swiglu_backward_rows(dy: Array, gate: Array, up: Array, dgate: Array, dup: Array, start: int, stop: int) -> None:
    s = _sigmoid(gate)
    dgate[start:stop] = (dy * up * (s + gate * s * (1 - s)))[start:stop]
    dup[start:stop] = (dy * gate * s)[start:stop]


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def gelu(x: Array) -> Array:
    result: Array = x * (1 + _erf(x / math.sqrt(2))) / 2
    return result


def gelu_tanh(x: Array) -> Array:
    result: Array = x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return result


def _gelu_exact_rows(x: Array, y: Array, start: int, stop: int) -> None:
    y[:, start:stop] = gelu(x[:, start:stop])


def _gelu_exact_backward_rows(dy: Array, x: Array, dx: Array, start: int, stop: int) -> None:
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    dx[:, start:stop] = (dy * ((1 + _erf(x / math.sqrt(2))) / 2 + x * density))[:, start:stop]


def _gelu_tanh_rows(x: Array, y: Array, start: int, stop: int) -> None:
    y[:, start:stop] = gelu_tanh(x[:, start:stop])


def _gelu_tanh_backward_rows(dy: Array, x: Array, dx: Array, start: int, stop: int) -> None:
    root = math.sqrt(2 / math.pi)
    t = np.tanh(root * (x + 0.044715 * x**3))
    slope = (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x)
    dx[:, start:stop] = (dy * slope)[:, start:stop]


@st.composite
def _cross_entropy_arguments(draw: Draw, dtype: Any) -> Arguments:
    count, width = draw(st.integers(0, 5)), draw(WIDTHS)
    logits = numbers(draw, dtype, count, width, scale=3)
    targets = draw(st.lists(st.integers(-1, width - 1), min_size=count, max_size=count))
    results = [np.full(count, UNTOUCHED, dtype) for _ in range(2)]
    return [logits, np.array(targets, np.int64), -1, *results, *_part(draw, count)]


def _cross_entropy_rows(
    logits: Array, targets: Array, ignore: int, losses: Array, normaliser: Array, start: int, stop: int
) -> None:
    for i in range(start, stop):
        real = targets[i] != ignore
        normaliser[i] = log_sum_exp(logits[i]) if real else 0
        losses[i] = normaliser[i] - logits[i, targets[i]] if real else 0


@st.composite
def _cross_entropy_in_place_arguments(draw: Draw, dtype: Any) -> Arguments:
    logits, targets, ignore, losses, _, start, stop = draw(_cross_entropy_arguments(dtype))
    return [logits, targets, ignore, losses, dtype(0.25), start, stop]


def _cross_entropy_in_place_rows(
    logits: Array, targets: Array, ignore: int, losses: Array, scale: float, start: int, stop: int
) -> None:
    scores = logits.copy()
    _cross_entropy_rows(scores, targets, ignore, losses, np.empty_like(losses), start, stop)
    normaliser = log_sum_exp(scores)
    _cross_entropy_backward_rows(scores, targets, ignore, normaliser, scale, logits, start, stop)


@st.composite
def _cross_entropy_backward_arguments(draw: Draw, dtype: Any) -> Arguments:
    logits, targets, ignore, _, normaliser, start, stop = draw(_cross_entropy_arguments(dtype))
    normaliser[...] = log_sum_exp(logits)
    return [logits, targets, ignore, normaliser, dtype(0.25), _like(logits), start, stop]


def _cross_entropy_backward_rows(
    logits: Array,
    targets: Array,
    ignore: int,
    normaliser: Array,
    scale: float,
    dx: Array,
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        one_hot = np.arange(logits.shape[1]) == targets[i]
        dx[i] = (softmax(logits[i]) - one_hot) * scale if targets[i] != ignore else 0


def philox(counters: Array, stream: tuple[int, int], key: tuple[int, int]) -> Array:
    """Philox4x32-10 on many counters: (n,) -> (n, 4) words, by the paper's figure 4."""
    low = np.uint64(0xFFFFFFFF)
    counters = counters.astype(np.uint64)
    words = [counters & low, counters >> np.uint64(32), *(np.full_like(counters, word) for word in stream)]
    for _ in range(10):
        words, key = _mixed(words, key)
    return np.stack(words, axis=1)


def _mixed(words: list[Any], key: tuple[int, int]) -> tuple[list[Any], tuple[int, int]]:
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    p0, p1 = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
    words = [p1 >> half ^ words[1] ^ np.uint64(key[0]), p1 & low, p0 >> half ^ words[3] ^ np.uint64(key[1]), p0 & low]
    return words, ((key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32)


@st.composite
def _philox_arguments(draw: Draw, dtype: Any) -> Arguments:
    return [np.uint32(draw(st.integers(0, 2**32 - 1))) for _ in range(6)]


def _philox_round(*numbers: Any) -> tuple[int, ...]:
    *words, k0, k1 = (int(number) for number in numbers)
    mixed, key = _mixed([np.uint64(word) for word in words], (k0, k1))
    return (*(int(word) for word in mixed), *key)


@st.composite
def _mask_arguments(draw: Draw, dtype: Any) -> Arguments:
    words = np.array([draw(st.integers(0, 2**32 - 1)) for _ in range(4)], np.uint32)
    count, block, row = draw(st.integers(0, 11)), draw(st.integers(0, 100)), draw(st.integers(0, 100))
    return [np.full(12, UNTOUCHED, dtype), count, block, row, words, 2**31, dtype(2)]


def _draw_mask(mask: Array, count: int, block: int, row: int, words: Array, threshold: int, scale: float) -> None:
    blocks = -(-count // 4)  # all four draws of the last counter are written
    counters = (np.arange(block, block + blocks) | row << 32).astype(np.uint64)
    drawn = philox(counters, (int(words[2]), int(words[3])), (int(words[0]), int(words[1]))).reshape(-1)
    mask[: 4 * blocks] = np.where(drawn >= threshold, scale, 0)


@st.composite
def _dropout_arguments(draw: Draw, dtype: Any) -> Arguments:
    size = draw(st.integers(0, 40) | st.integers(1020, 1030) | st.integers(2046, 2050))
    words = np.array([draw(st.integers(0, 2**32 - 1)) for _ in range(4)], np.uint32)
    x = numbers(draw, dtype, 1, size)
    return [x, _like(x), words, 2**30, dtype(4 / 3), *_part(draw, -(-size // 4))]


def _dropout_blocks(x: Array, y: Array, words: Array, threshold: int, scale: float, start: int, stop: int) -> None:
    key0, key1, stream0, stream1 = (int(word) for word in words)
    drawn = philox(np.arange(start, stop), (stream0, stream1), (key0, key1)).reshape(-1)
    part = slice(4 * start, min(4 * stop, x.shape[1]))
    y[0, part] = np.where(drawn[: len(x[0, part])] >= threshold, x[0, part] * scale, 0)


@st.composite
def _norm_arguments(draw: Draw, dtype: Any, bias: bool) -> Arguments:
    count, width = draw(st.integers(0, 5)), draw(WIDTHS)
    x, weights = numbers(draw, dtype, count, width), numbers(draw, dtype, 2, width)
    statistics = [np.full(count, UNTOUCHED, dtype) for _ in range(1 + bias)]
    return [x, *weights[: 1 + bias], _like(x), *statistics, dtype(1e-3), *_part(draw, count)]


def _rms_norm_rows(x: Array, weight: Array, y: Array, inverse: Array, eps: float, start: int, stop: int) -> None:
    inverse[start:stop] = 1 / np.sqrt((x * x).mean(axis=1) + eps)[start:stop]
    y[start:stop] = (x * inverse[:, None] * weight)[start:stop]


def _layer_norm_rows(
    x: Array,
    weight: Array,
    bias: Array,
    y: Array,
    mean: Array,
    inverse: Array,
    eps: float,
    start: int,
    stop: int,
) -> None:
    mean[start:stop] = x.mean(axis=1)[start:stop]
    inverse[start:stop] = 1 / np.sqrt(x.var(axis=1) + eps)[start:stop]
    y[start:stop] = ((x - mean[:, None]) * inverse[:, None] * weight + bias)[start:stop]


@st.composite
def _norm_backward_arguments(draw: Draw, dtype: Any, bias: bool) -> Arguments:
    count, width, chunk = draw(st.integers(0, 9)), draw(WIDTHS), draw(st.integers(1, 4))
    dy, x = (numbers(draw, dtype, count, width) for _ in range(2))
    weight, inverse = numbers(draw, dtype, width), np.abs(numbers(draw, dtype, count)) + dtype(0.5)
    chunks = -(-count // chunk)
    sums = [np.full((chunks, width), UNTOUCHED, dtype) for _ in range(1 + bias)]
    mean = [x.mean(axis=1)] if bias else []
    return [dy, x, weight, *mean, inverse, _like(x), *sums, chunk, *_part(draw, chunks)]


def _rms_norm_backward_chunks(
    dy: Array,
    x: Array,
    weight: Array,
    inverse: Array,
    dx: Array,
    dw: Array,
    rows: int,
    start: int,
    stop: int,
) -> None:
    for chunk in range(start, stop):
        part = slice(chunk * rows, (chunk + 1) * rows)
        r, g = inverse[part, None], dy[part] * weight
        dx[part] = r * g - x[part] * r**3 * (g * x[part]).mean(axis=1, keepdims=True)
        dw[chunk] = (dy[part] * x[part] * r).sum(axis=0)


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
    centred = x - mean[:, None]
    _rms_norm_backward_chunks(dy, centred, weight, inverse, dx, dw, rows, start, stop)
    for chunk in range(start, stop):
        part = slice(chunk * rows, (chunk + 1) * rows)
        dx[part] -= inverse[part, None] * (dy[part] * weight).mean(axis=1, keepdims=True)
        db[chunk] = dy[part].sum(axis=0)


@st.composite
def _rotary_arguments(draw: Draw, dtype: Any) -> Arguments:
    count, heads, half = (draw(st.integers(low, 4)) for low in (0, 1, 1))
    x = numbers(draw, dtype, count, heads * 2 * half)
    angles = numbers(draw, np.float64, 6, half)
    positions = np.array(draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)), np.int64)
    direction = dtype(draw(st.sampled_from([-1, 1])))
    tables = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
    return [x, *tables, positions, direction, draw(st.booleans()), _like(x), *_part(draw, count)]


def _rotary_rows(
    x: Array,
    cosine: Array,
    sine: Array,
    positions: Array,
    direction: float,
    interleaved: bool,
    y: Array,
    start: int,
    stop: int,
) -> None:
    half = cosine.shape[1]
    heads = x.reshape(len(x), x.shape[1] // (2 * half), 2 * half)
    first, far = (2 * np.arange(half), 1) if interleaved else (np.arange(half), half)
    turned = (heads[..., first] + 1j * heads[..., first + far]) * (cosine + 1j * direction * sine)[positions][:, None]
    result = np.empty_like(heads)
    result[..., first], result[..., first + far] = turned.real, turned.imag
    y[start:stop] = result.reshape(x.shape)[start:stop]


@st.composite
def _scatter_arguments(draw: Draw, dtype: Any) -> Arguments:
    count, width, size = draw(st.integers(0, 8)), draw(WIDTHS), draw(st.integers(1, 4))
    ids = np.array(draw(st.lists(st.integers(0, size - 1), min_size=count, max_size=count)), np.int64)
    return [numbers(draw, dtype, count, width), ids, numbers(draw, dtype, size, width), *_part(draw, width)]


def _scatter_add_columns(dy: Array, ids: Array, dw: Array, start: int, stop: int) -> None:
    np.add.at(dw[:, start:stop], ids, dy[:, start:stop])


@st.composite
def _adamw_arguments(draw: Draw, dtype: Any) -> Arguments:
    size = draw(st.integers(0, 40))
    parameter, gradient, m = (numbers(draw, dtype, size) for _ in range(3))
    v = np.abs(numbers(draw, dtype, size))
    settings = np.array([0.9, 0.95, 0.01, 1.5, 1e-8, 0.99, 0.5], dtype)
    return [parameter, gradient, m, v, settings, *_part(draw, size)]


def _adamw_range(parameter: Array, gradient: Array, m: Array, v: Array, numbers: Array, start: int, stop: int) -> None:
    beta1, beta2, step_size, correction, eps, keep, clip = numbers
    p = slice(start, stop)
    g = gradient[p] * clip
    m[p] = beta1 * m[p] + (1 - beta1) * g
    v[p] = beta2 * v[p] + (1 - beta2) * g**2
    parameter[p] = keep * parameter[p] - step_size * m[p] / (np.sqrt(v[p] * correction) + eps)


@st.composite
def _squares_arguments(draw: Draw, dtype: Any) -> Arguments:
    size, chunk = draw(st.integers(0, 40)), draw(st.integers(1, 9))
    chunks = -(-size // chunk)
    return [numbers(draw, dtype, size), np.full(chunks, UNTOUCHED, dtype), chunk, *_part(draw, chunks)]


def _sum_of_squares_chunks(x: Array, totals: Array, size: int, start: int, stop: int) -> None:
    for chunk in range(start, stop):
        totals[chunk] = (x[chunk * size : (chunk + 1) * size] ** 2).sum()


@st.composite
def _maximum_arguments(draw: Draw, dtype: Any) -> Arguments:
    x = numbers(draw, dtype, draw(st.integers(1, 3)), draw(WIDTHS))
    row, width = draw(st.integers(0, len(x) - 1)), draw(st.integers(0, x.shape[1]))
    return [x, row, width, np.zeros(LANES, dtype)]


def _row_maximum(x: Array, row: int, width: int, lanes: Array) -> Any:
    return x[row, :width].max(initial=-np.inf)


@st.composite
def _exponential_arguments(draw: Draw, dtype: Any) -> Arguments:
    return [np.float32(draw(st.floats(-87, 88, width=32)))]


def _normal(x: Any) -> Any:
    return (1 + math.erf(float(x) / math.sqrt(2))) / 2


TWINS: dict[str, Twin] = {
    "rowwise.adamw._adamw_range": Twin(_adamw_arguments, _adamw_range),
    "rowwise.adamw._sum_of_squares_chunks": Twin(_squares_arguments, _sum_of_squares_chunks),
    "rowwise.cross_entropy._cross_entropy_in_place_rows": Twin(
        _cross_entropy_in_place_arguments, _cross_entropy_in_place_rows
    ),
    "rowwise.cross_entropy._cross_entropy_rows": Twin(_cross_entropy_arguments, _cross_entropy_rows),
    "rowwise.cross_entropy._cross_entropy_backward_rows": Twin(
        _cross_entropy_backward_arguments, _cross_entropy_backward_rows
    ),
    "rowwise.dropout.philox_round": Twin(_philox_arguments, _philox_round),
    "rowwise.dropout.draw_mask": Twin(_mask_arguments, _draw_mask),
    "rowwise.dropout._dropout_blocks": Twin(_dropout_arguments, _dropout_blocks),
    "rowwise.gelu._gelu_exact_rows": Twin(flat(1), _gelu_exact_rows),
    "rowwise.gelu._gelu_exact_backward_rows": Twin(flat(2), _gelu_exact_backward_rows),
    "rowwise.gelu._gelu_tanh_rows": Twin(flat(1), _gelu_tanh_rows),
    "rowwise.gelu._gelu_tanh_backward_rows": Twin(flat(2), _gelu_tanh_backward_rows),
    "rowwise.embedding._scatter_add_columns": Twin(_scatter_arguments, _scatter_add_columns),
    "rowwise.exponential.exp_float32": Twin(
        _exponential_arguments, lambda x: np.exp(np.float64(x)), portable=exponential.exp
    ),
    "rowwise.maximum.row_maximum": Twin(_maximum_arguments, _row_maximum),
    "rowwise.normal_cdf.normal_float32": Twin(_exponential_arguments, _normal, portable=normal.normal, error=3e-7),
    "rowwise.norm._rms_norm_rows": Twin(lambda dtype: _norm_arguments(dtype, bias=False), _rms_norm_rows),
    "rowwise.norm._rms_norm_backward_chunks": Twin(
        lambda dtype: _norm_backward_arguments(dtype, bias=False), _rms_norm_backward_chunks
    ),
    "rowwise.norm._layer_norm_rows": Twin(lambda dtype: _norm_arguments(dtype, bias=True), _layer_norm_rows),
    "rowwise.norm._layer_norm_backward_chunks": Twin(
        lambda dtype: _norm_backward_arguments(dtype, bias=True), _layer_norm_backward_chunks
    ),
    "rowwise.rotary._rotary_rows": Twin(_rotary_arguments, _rotary_rows),
    "rowwise.softmax._softmax_rows": Twin(rows(1, 1), _softmax_rows),
    "rowwise.softmax._softmax_backward_rows": Twin(rows(2, 1), _softmax_backward_rows),
    "rowwise.softmax._log_softmax_rows": Twin(rows(1, 1), _log_softmax_rows),
    "rowwise.softmax._log_softmax_backward_rows": Twin(rows(2, 1), _log_softmax_backward_rows),
    "rowwise.swiglu._swiglu_rows": Twin(rows(2, 1), _swiglu_rows),
    "rowwise.swiglu._swiglu_backward_rows": Twin(rows(3, 2), _swiglu_backward_rows),
}
