"""Products of tensors of any sizes: convolution, the outer product, and the Kronecker product.

Convolution multiplies polynomials: the elements of a vector are the coefficients of $a_0 + a_1 z + a_2 z^2 + ...$
The outer product keeps the axes of both tensors apart. So zeros at the end of either argument remain at the end of
these two products. The Kronecker product joins each pair of axes into one: there, zeros at the end of the second
argument move between other elements, and the result depends on the member of the class (docs/variable_shapes.md).
"""

from __future__ import annotations

import math

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.typing import Array

METHODS = ("auto", "direct", "fft")

# From this length of the shorter vector on, the transforms are faster than the sums (docs/variable_shapes.md).
_SHORTEST_FOR_FFT = 512


@op(integer_dtype="float32")
def convolve(a: Array, b: Array, *, method: str = "auto") -> tuple[Array, Backward]:
    r"""Multiply two polynomials: $y_k = \sum_{i + j = k} a_i b_j$, the full convolution.

    `method` is "direct" (m n products), "fft" (about $L \log L$ products, where L is the power of two above m + n - 2;
    the error is relative to the largest element, and an infinity or NaN makes every element NaN), or "auto": fft if
    both vectors are long.
    Shapes: a (m,), b (n,) -> (m + n - 1,), or (0,) if m or n is 0.  Raises ShapeError if they are not vectors, and
    InputError for another method.

    >>> convolve(Tensor([1.0, 1.0]), Tensor([1.0, 2.0])).tolist()  # (1 + z) (1 + 2z) = 1 + 3z + 2z^2
    [1.0, 3.0, 2.0]
    """
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"convolve needs two vectors; got shapes {a.shape} and {b.shape}")
    if method not in METHODS:
        raise InputError(f"convolve has no method {method!r}; choose {', '.join(METHODS)}")
    if not (len(a) and len(b)):
        return np.zeros(0, a.dtype), lambda dy: (np.zeros_like(a), np.zeros_like(b))
    by_fft = method == "fft" or (method == "auto" and min(len(a), len(b)) >= _SHORTEST_FOR_FFT)

    def correlate(dy: Array, other: Array) -> Array:
        """Return $\\sum_j dy_{i + j} b_j$ for every i that keeps i + j within dy."""
        if not by_fft:
            return np.correlate(dy, other, "valid")
        return _multiply_transforms(dy, other, len(dy) - len(other) + 1, conjugate=True)

    def backward(dy: Array) -> tuple[Array, Array]:
        # a_i is part of every y_{i + j}, with the factor b_j: da_i = sum_j dy_{i + j} b_j. The same holds for b.
        return correlate(dy, b), correlate(dy, a)

    return _multiply_transforms(a, b, len(a) + len(b) - 1) if by_fft else np.convolve(a, b), backward


def _multiply_transforms(a: Array, b: Array, length: int, *, conjugate: bool = False) -> Array:
    """Return the first elements of the convolution of a and b, or with `conjugate` of their correlation."""
    # A value of the transform is the value of the polynomial at a root of unity, so the transform of a product is the
    # product of the transforms. With enough roots no coefficient wraps around. To conjugate reverses a vector.
    longest = len(a) if conjugate else length
    size = max(2, 1 << (longest - 1).bit_length())  # a power of two; a real transform needs an even length
    transformed = np.fft.rfft(b, size)
    y = np.fft.irfft(np.fft.rfft(a, size) * (np.conj(transformed) if conjugate else transformed), size)
    return y[:length] if np.isfinite(y).all() else np.full_like(y[:length], np.nan)


@op(integer_dtype="int64")
def outer(a: Array, b: Array) -> tuple[Array, Backward]:
    r"""Multiply every pair of elements: $y_{ij} = a_i b_j$, where i and j may be indices of several axes.

    Shapes: a (m, ...), b (n, ...) -> (m, ..., n, ...).

    >>> outer(Tensor([1.0, 2.0]), Tensor([3.0, 4.0, 5.0])).tolist()
    [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    """

    def backward(dy: Array) -> tuple[Array, Array]:
        # Of the matrix dy_{ij}: da_i = sum_j dy_{ij} b_j and db_j = sum_i a_i dy_{ij}.
        matrix = dy.reshape(math.prod(a.shape), math.prod(b.shape))
        return (matrix @ b.reshape(-1)).reshape(a.shape), (a.reshape(-1) @ matrix).reshape(b.shape)

    return np.multiply.outer(a, b), backward


def kronecker(a: Tensor, b: Tensor) -> Tensor:
    r"""Replace each element of a by its product with all of b: $y_{i n + j} = a_i b_j$ along each axis, b of size n.

    Shapes: a (m_0, m_1, ...), b (n_0, n_1, ...) -> (m_0 n_0, m_1 n_1, ...).  Raises ShapeError if they differ in their
    number of axes.

    >>> kronecker(Tensor([1, 2]), Tensor([10, 20, 30])).tolist()
    [10, 20, 30, 20, 40, 60]
    """
    if a.ndim != b.ndim:
        raise ShapeError(f"kronecker needs tensors with equally many axes; got shapes {a.shape} and {b.shape}")
    pairs = [axis for own in range(a.ndim) for axis in (own, a.ndim + own)]  # (m_0, n_0, m_1, n_1, ...)
    shape = tuple(m * n for m, n in zip(a.shape, b.shape, strict=True))
    return outer(a, b).transpose(*pairs).reshape(shape)
