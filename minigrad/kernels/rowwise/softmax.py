"""Softmax and its logarithm over rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.jit import exact, kernel, overload, types
from minigrad.kernels.rows import rows_of, share_rows
from minigrad.kernels.rowwise.exponential import exp
from minigrad.typing import Array


def largest_of(values: Array) -> Any:
    """Return the largest of some contiguous numbers; -inf if there are none.

    A NaN without a sign counts as the largest of all, and one with a sign, as x86 processors make it, as less than
    -inf: a caller must not rely on the result to notice NaN.
    """
    return values.max(initial=-np.inf)


@overload(largest_of)
def _largest_of(values):  # type: ignore[no-untyped-def]
    # In a plain loop each maximum depends on the one before, and NaN makes their order matter, so the compiler takes
    # one number at a time. Integers may be taken in any order, and sixteen at once. The bits of a float, read as an
    # integer, rise with it; those of a negative float fall, unless all bits but the sign are inverted. On one core of a
    # Zen 5 this takes 26 billion numbers per second, the plain loop 2.2 billion (benchmarks/kernel_times.py).
    kind, integer, sign = (np.float32, np.int32, 31) if values.dtype == types.float32 else (np.float64, np.int64, 63)
    all_but_sign = 2**sign - 1
    lowest = int(kind(-np.inf).view(integer)) ^ all_but_sign

    def largest_of(values):  # type: ignore[no-untyped-def]
        bits, found = values.view(integer), integer(lowest)
        for i in range(bits.size):
            found = max(found, integer(bits[i] ^ (bits[i] >> sign & all_but_sign)))
        return integer(found ^ (found >> sign & all_but_sign)).view(kind)

    return largest_of


@exact
def log_probability(x: Any, shift: Any, log_total: Any) -> Any:
    """Return (x - shift) - log_total, in this order: shift + log_total would lose digits where the shift is large."""
    return (x - shift) - log_total


@kernel
def _softmax_rows(x: Array, y: Array, start: int, stop: int) -> None:
    width, zero = x.shape[1], x.dtype.type(0)
    for i in range(start, stop):
        largest = largest_of(x[i])
        shift = largest if largest > -np.inf else zero
        for j in range(width):
            y[i, j] = exp(x[i, j] - shift)
        # Added in a loop of its own. If y lies a few registers behind x, the compiled loop above takes one element at a
        # time, which changes no exponential, but would change the order of a sum.
        total = zero
        for j in range(width):
            total += y[i, j]
        # A row of nothing but -inf has no distribution: its total and its probabilities are 0.
        scale = x.dtype.type(1) / total if total != zero else zero
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
    width, zero = x.shape[1], x.dtype.type(0)
    for i in range(start, stop):
        largest = largest_of(x[i])
        shift = largest if largest > -np.inf else zero
        total = zero
        for j in range(width):
            total += exp(x[i, j] - shift)
        # The logarithms of the zeros that softmax gives for a row of nothing but -inf are -inf, as the row itself.
        log_total = np.log(total) if total != zero else zero
        for j in range(width):
            y[i, j] = log_probability(x[i, j], shift, log_total)


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
    rows = [rows_of(array) for array in moved]
    result = np.empty(rows[0].shape, rows[0].dtype)
    share_rows(loop, 4, *rows, result)
    return np.moveaxis(result.reshape(moved[0].shape), -1, axis)


def softmax_forward(x: Array, axis: int) -> Array:
    """Return the softmax of `x` along `axis`.  Shapes: x (...) -> (...)."""
    return _along(axis, _softmax_rows, x)


def softmax_backward(dy: Array, y: Array, axis: int) -> Array:
    """Return the gradient of softmax, from its result `y`.  Shapes: dy and y (...) -> (...)."""
    return _along(axis, _softmax_backward_rows, dy, y)


def log_softmax_forward(x: Array, axis: int) -> Array:
    """Return the logarithm of the softmax of `x` along `axis`.  Shapes: x (...) -> (...)."""
    return _along(axis, _log_softmax_rows, x)


def log_softmax_backward(dy: Array, y: Array, axis: int) -> Array:
    """Return the gradient of log-softmax, from its result `y`.  Shapes: dy and y (...) -> (...)."""
    return _along(axis, _log_softmax_backward_rows, dy, y)
