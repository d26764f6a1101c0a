"""Functions of one number, applied to each element: exponentials, and the bends that make a network non-linear."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import InputError
from minigrad.kernels.rowwise import gelu as kernels
from minigrad.typing import Array


@op
def exp(x: Array) -> tuple[Array, Backward]:
    """The exponential, which is its own slope: $y = e^x$.

    Shapes: x (...) -> (...).
    """
    y = np.exp(x)

    def backward(dy: Array) -> Array:
        return dy * y

    return y, backward


@op
def log(x: Array) -> tuple[Array, Backward]:
    r"""The natural logarithm: $y = \ln x$, with slope $1/x$.

    Shapes: x (...) -> (...).  NaN for negative numbers, minus infinity at zero.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(x)

    def backward(dy: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return dy / x

    return y, backward


@op
def sqrt(x: Array) -> tuple[Array, Backward]:
    r"""The square root: $y = \sqrt{x}$, with slope $1 / 2y$.

    Shapes: x (...) -> (...).  NaN for negative numbers; the slope at zero is infinite.
    """
    with np.errstate(invalid="ignore"):
        y = np.sqrt(x)

    def backward(dy: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return dy / (2 * y)

    return y, backward


@op
def tanh(x: Array) -> tuple[Array, Backward]:
    r"""The hyperbolic tangent, an S from -1 to 1: slope $1 - y^2$.

    Shapes: x (...) -> (...).
    """
    y = np.tanh(x)

    def backward(dy: Array) -> Array:
        return dy * (1 - y * y)

    return y, backward


@op
def sigmoid(x: Array) -> tuple[Array, Backward]:
    r"""The logistic function, an S from 0 to 1: $y = 1 / (1 + e^{-x})$, slope $y (1 - y)$.

    Shapes: x (...) -> (...).
    """
    y = _logistic(x)

    def backward(dy: Array) -> Array:
        return dy * (y * (1 - y))

    return y, backward


def _logistic(x: Array) -> Array:
    # exp(-|x|) never overflows; for negative x the same fraction is e^x / (1 + e^x).
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small).astype(small.dtype) / (1 + small)


@op
def relu(x: Array) -> tuple[Array, Backward]:
    r"""Keep what is positive: $y = \max(x, 0)$ (Fukushima 1969). The slope at 0 is taken as 0.

    Shapes: x (...) -> (...).
    """
    positive = x > 0

    def backward(dy: Array) -> Array:
        return dy * positive

    return np.maximum(x, 0), backward


@op
def silu(x: Array) -> tuple[Array, Backward]:
    r"""A smooth bend that dips below zero: $y = x \sigma(x)$ (Elfwing et al. 2017, arXiv 1702.03118).

    Shapes: x (...) -> (...).
    """
    gate = _logistic(x)

    def backward(dy: Array) -> Array:
        return dy * (gate * (1 + x * (1 - gate)))

    return x * gate, backward


@op
def gelu(x: Array, *, approximate: str = "none") -> tuple[Array, Backward]:
    r"""Weigh each number by how likely a normal draw lies below it (Hendrycks and Gimpel 2016, arXiv 1606.08415).

    $y = x \Phi(x)$ with the normal distribution function $\Phi$ for ``approximate="none"``, and for
    ``approximate="tanh"`` $y = \tfrac{x}{2} (1 + \tanh(\sqrt{2/\pi} (x + 0.044715 x^3)))$, as GPT-2 uses.
    Shapes: x (...) -> (...).  Raises InputError for any other name.
    """
    if approximate not in ("none", "tanh"):
        raise InputError(f"gelu knows approximate='none' and 'tanh', not {approximate!r}")
    exact = approximate == "none"

    def backward(dy: Array) -> Array:
        return kernels.gelu_backward(dy, x, exact)

    return kernels.gelu_forward(x, exact), backward


@op
def astype(x: Array, *, dtype: DTypeLike) -> tuple[Array, Backward]:
    """Convert to another type of number; the gradient is converted back.

    Shapes: x (...) -> (...).
    """
    before = x.dtype

    def backward(dy: Array) -> Array:
        return dy.astype(before)

    return x.astype(dtype), backward
