"""Twins of softmax, cross-entropy, the gates and the activation functions, and of what they are made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.rowwise import exponential
from minigrad.kernels.rowwise import normal_cdf as normal
from minigrad.kernels.rowwise.cross_entropy import Sums, Targets
from minigrad.kernels.rowwise.distillation import Lesson
from tests.kernels.twin import UNTOUCHED, WIDTHS, Arguments, Array, Twin, flat, numbers, rows, span, untouched


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


@st.composite
def _log_softmax_backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    dy, y, *rest = draw(rows(2, 1)(dtype))
    # Logarithms of probabilities, none above 0: the rounding of the sum of dy is multiplied by exp(y).
    return [dy, y - log_sum_exp(y)[:, None], *rest]


def _log_softmax_backward_rows(dy: Array, y: Array, dx: Array, start: int, stop: int) -> None:
    dy, y = dy[start:stop], y[start:stop]
    dx[start:stop] = dy - np.exp(y) * dy.sum(axis=1, keepdims=True)


def sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _swiglu_rows(gate: Array, up: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = (gate * sigmoid(gate) * up)[start:stop]


def _swiglu_backward_rows(dy: Array, gate: Array, up: Array, dgate: Array, dup: Array, start: int, stop: int) -> None:
    s = sigmoid(gate)
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
    y[start:stop] = gelu(x[start:stop])


def _gelu_exact_backward_rows(dy: Array, x: Array, dx: Array, start: int, stop: int) -> None:
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    dx[start:stop] = (dy * ((1 + _erf(x / math.sqrt(2))) / 2 + x * density))[start:stop]


def _gelu_tanh_rows(x: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = gelu_tanh(x[start:stop])


def _gelu_tanh_backward_rows(dy: Array, x: Array, dx: Array, start: int, stop: int) -> None:
    root = math.sqrt(2 / math.pi)
    t = np.tanh(root * (x + 0.044715 * x**3))
    slope = (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x)
    dx[start:stop] = (dy * slope)[start:stop]


@st.composite
def _cross_entropy_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    count, width = draw(st.integers(0, 5)), draw(WIDTHS)
    logits = numbers(draw, dtype, count, width, scale=3)
    classes = draw(st.lists(st.integers(-1, width - 1), min_size=count, max_size=count))
    losses, *sums = (np.full(count, UNTOUCHED, dtype) for _ in range(3))
    return [logits, (np.array(classes, np.int64), -1), losses, tuple(sums), *span(draw, count)]


def _cross_entropy_rows(logits: Array, targets: Targets, losses: Array, sums: Sums, start: int, stop: int) -> None:
    shifts, totals = sums
    for i in range(start, stop):
        target, ignored = targets[0][i], targets[1]
        real = target != ignored
        shifts[i] = logits[i].max() if real else 0
        totals[i] = np.exp(logits[i] - shifts[i]).sum() if real else 0
        losses[i] = log_sum_exp(logits[i]) - logits[i, target] if real else 0


@st.composite
def _cross_entropy_in_place_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    logits, targets, losses, _, start, stop = draw(_cross_entropy_arguments(dtype))
    return [logits, targets, losses, numbers(draw, dtype, len(losses)), start, stop]


def _cross_entropy_in_place_rows(
    logits: Array, targets: Targets, losses: Array, scales: Array, start: int, stop: int
) -> None:
    before = logits.copy()
    sums = np.empty_like(losses), np.empty_like(losses)
    _cross_entropy_rows(before, targets, losses, sums, start, stop)
    _cross_entropy_backward_rows(before, targets, sums, 1.0, logits, start, stop)
    logits[start:stop] *= scales[start:stop, None]


@st.composite
def _distillation_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    logits, targets, losses, scales, start, stop = draw(_cross_entropy_in_place_arguments(dtype))
    shares = np.array([draw(st.sampled_from([0.0, 0.25, 1.0])) for _ in logits], dtype)
    how = dtype(draw(st.sampled_from([1.0, 2.5]))), shares, draw(st.booleans())
    return [logits, numbers(draw, dtype, *logits.shape), Lesson(*targets, *how), losses, scales, start, stop]


def _distillation_rows(
    logits: Array, teacher: Array, lesson: Lesson, losses: Array, scales: Array, start: int, stop: int
) -> None:
    temperature = lesson.temperature
    for i in range(start, stop):
        target, x, share = lesson.classes[i], logits[i].copy(), lesson.shares[i]
        if target == lesson.ignored:
            losses[i], logits[i] = 0, 0
            continue
        log_p, log_q = ((each / temperature - log_sum_exp(each / temperature)) for each in (x, teacher[i]))
        p, q, one_hot = np.exp(log_p), np.exp(log_q), np.arange(len(x)) == target
        divergence = (p * (log_p - log_q)).sum() if lesson.is_reverse else (q * (log_q - log_p)).sum()
        slope = p * (log_p - log_q - divergence) if lesson.is_reverse else p - q
        # What is left of the logits of the teacher is of no use.
        teacher[i] = log_p - log_q if lesson.is_reverse else p - q
        losses[i] = (1 - share) * (log_sum_exp(x) - x[target]) + share * temperature**2 * divergence
        text = np.exp(x - log_sum_exp(x)) - one_hot
        logits[i] = scales[i] * ((1 - share) * text + share * temperature * slope)


@st.composite
def _cross_entropy_backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    logits, targets, _, _, start, stop = draw(_cross_entropy_arguments(dtype))
    shifts = logits.max(axis=1, initial=-np.inf)
    totals = np.exp(logits - shifts[:, None]).sum(axis=1)
    return [logits, targets, (shifts, totals), dtype(0.25), untouched(logits), start, stop]


def _cross_entropy_backward_rows(
    logits: Array, targets: Targets, sums: Sums, scale: float, dx: Array, start: int, stop: int
) -> None:
    for i in range(start, stop):
        target, ignored = targets[0][i], targets[1]
        one_hot = np.arange(logits.shape[1]) == target
        dx[i] = (softmax(logits[i]) - one_hot) * scale if target != ignored else 0


@st.composite
def _exponential_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    return [np.float32(draw(st.floats(-87, 88, width=32)))]


@st.composite
def _probability_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    return [dtype(draw(st.floats(-9, 9, width=32))) for _ in range(3)]


def _normal(x: Any) -> Any:
    return math.erfc(-float(x) / math.sqrt(2)) / 2, math.exp(-(float(x) ** 2) / 2) / math.sqrt(2 * math.pi)


TWINS: dict[str, Twin] = {
    "rowwise.distillation._distillation_rows": Twin(_distillation_arguments, _distillation_rows),
    "rowwise.cross_entropy._cross_entropy_in_place_rows": Twin(
        _cross_entropy_in_place_arguments, _cross_entropy_in_place_rows
    ),
    "rowwise.cross_entropy._cross_entropy_rows": Twin(_cross_entropy_arguments, _cross_entropy_rows),
    "rowwise.cross_entropy._cross_entropy_backward_rows": Twin(
        _cross_entropy_backward_arguments, _cross_entropy_backward_rows
    ),
    "rowwise.exponential.exp_float32": Twin(
        _exponential_arguments, lambda x: np.exp(np.float64(x)), portable=exponential.exp
    ),
    "rowwise.gelu._gelu_exact_rows": Twin(flat(1), _gelu_exact_rows),
    "rowwise.gelu._gelu_exact_backward_rows": Twin(flat(2), _gelu_exact_backward_rows),
    "rowwise.gelu._gelu_tanh_rows": Twin(flat(1), _gelu_tanh_rows),
    "rowwise.gelu._gelu_tanh_backward_rows": Twin(flat(2), _gelu_tanh_backward_rows),
    "rowwise.softmax.log_probability": Twin(_probability_arguments, lambda x, shift, log_total: x - shift - log_total),
    "rowwise.cross_entropy.cost": Twin(_probability_arguments, lambda x, shift, log_total: log_total - (x - shift)),
    "rowwise.normal_cdf.normal_float32": Twin(_exponential_arguments, _normal, portable=normal.normal, error=3e-7),
    "rowwise.softmax._softmax_rows": Twin(rows(1, 1), _softmax_rows),
    "rowwise.softmax._softmax_backward_rows": Twin(rows(2, 1), _softmax_backward_rows),
    "rowwise.softmax._log_softmax_rows": Twin(rows(1, 1), _log_softmax_rows),
    "rowwise.softmax._log_softmax_backward_rows": Twin(_log_softmax_backward_arguments, _log_softmax_backward_rows),
    "rowwise.gating._swiglu_rows": Twin(rows(2, 1), _swiglu_rows),
    "rowwise.gating._swiglu_backward_rows": Twin(rows(3, 2), _swiglu_backward_rows),
}
