"""Convolution of two vectors: the product of two polynomials, directly or by way of the Fourier transform.

The elements of a vector are the coefficients of a polynomial, $a_0 + a_1 z + a_2 z^2 + ...$, and those of its
convolution with another are the coefficients of the product. Trailing zeros change no polynomial.
"""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import InputError, ShapeError
from minigrad.typing import Array

METHODS = ("auto", "direct", "fft")

# From this length of the shorter vector on, the transforms are faster than the sums (docs/variable_shapes.md).
_SHORTEST_FOR_FFT = 512


@op(integer_dtype="float32")
def convolve(a: Array, b: Array, *, method: str = "auto") -> tuple[Array, Backward]:
    r"""Multiply two polynomials: $y_k = \sum_{i + j = k} a_i b_j$, the full convolution.

    `method` is "direct" (m n products), "fft" (about $L \log L$ of them, with L the power of two above m + n - 2; the
    error is relative to the largest element, and an infinity or NaN makes all elements NaN), or "auto": fft if both
    vectors are long.
    Shapes: a (m,), b (n,) -> (m + n - 1,), or (0,) if m or n is 0.  Raises ShapeError if they are not vectors, and
    InputError for another method.

    >>> from minigrad import Tensor, ops
    >>> ops.convolve(Tensor([1.0, 1.0]), Tensor([1.0, 2.0])).tolist()  # (1 + z) (1 + 2z) = 1 + 3z + 2z^2
    [1.0, 3.0, 2.0]
    """
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"convolve needs two vectors; got shapes {a.shape} and {b.shape}")
    if method not in METHODS:
        raise InputError(f"convolve has no method {method!r}; choose {', '.join(METHODS)}")
    by_fft = method == "fft" or (method == "auto" and min(len(a), len(b)) >= _SHORTEST_FOR_FFT)
    product, correlation = (_convolved_by_fft, _correlated_by_fft) if by_fft else (_convolved, _correlated)
    is_empty = 0 in (len(a), len(b))

    def backward(dy: Array) -> tuple[Array, Array]:
        # a_i is part of every y_{i + j}, with the factor b_j: da_i = sum_j dy_{i + j} b_j, a correlation of the length
        # of a. So it is for b.
        if is_empty:
            return np.zeros_like(a), np.zeros_like(b)
        return correlation(dy, b), correlation(dy, a)

    return np.zeros(0, a.dtype) if is_empty else product(a, b), backward


def _convolved(a: Array, b: Array) -> Array:
    return np.convolve(a, b)


def _correlated(dy: Array, b: Array) -> Array:
    """Return $\\sum_j dy_{i + j} b_j$ for every i that keeps i + j within dy."""
    return np.correlate(dy, b, "valid")


def _convolved_by_fft(a: Array, b: Array) -> Array:
    # The transform of a convolution is the product of the transforms: each value of it is the value of a polynomial at
    # a root of unity. With at least m + n - 1 roots no coefficient wraps around into another.
    size = _power_of_two(len(a) + len(b) - 1)
    return _inverse(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)[: len(a) + len(b) - 1]


def _correlated_by_fft(dy: Array, b: Array) -> Array:
    # To conjugate the transform reverses the vector: a correlation is the convolution with the reversed vector.
    size = _power_of_two(len(dy))
    return _inverse(np.fft.rfft(dy, size) * np.conj(np.fft.rfft(b, size)), size)[: len(dy) - len(b) + 1]


def _inverse(spectrum: Array, size: int) -> Array:
    """Return the real vector of a spectrum; nothing but NaN if it is not finite, whatever the transform makes of it."""
    y = np.fft.irfft(spectrum, size)
    return y if np.isfinite(y).all() else np.full_like(y, np.nan)


def _power_of_two(length: int) -> int:
    """Return the smallest power of two that is at least `length`, and at least 2: the transform's length is even."""
    return max(2, 1 << (length - 1).bit_length())
