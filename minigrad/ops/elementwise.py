"""Functions of a single value, applied to each element: exponentials, and activation functions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import InputError
from minigrad.kernels.rowwise import gelu as kernels
from minigrad.typing import Array


@op(integer_dtype="int64")
def absolute(x: Array) -> tuple[Array, Backward]:
    """Remove the sign: $y = |x|$. The derivative is -1 or 1, and taken as 0 at 0.  Shapes: x (...) -> (...)."""
    return np.abs(x), lambda dy: dy * np.sign(x)


@op(integer_dtype="float32")
def exp(x: Array) -> tuple[Array, Backward]:
    """Compute the exponential, which is its own derivative: $y = e^x$.  Shapes: x (...) -> (...)."""
    y = np.exp(x)
    return y, lambda dy: dy * y


@op(integer_dtype="float32")
def log(x: Array) -> tuple[Array, Backward]:
    r"""Compute the natural logarithm: $y = \ln x$, with the derivative $1/x$.

    Shapes: x (...) -> (...).  NaN for negative values, minus infinity at zero.
    """

    def backward(dy: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return dy / x

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(x), backward


@op(integer_dtype="float32")
def sqrt(x: Array) -> tuple[Array, Backward]:
    r"""Compute the square root: $y = \sqrt{x}$, with the derivative $1 / 2y$.

    Shapes: x (...) -> (...).  NaN for negative values; the derivative at zero is infinite.
    """
    with np.errstate(invalid="ignore"):
        y = np.sqrt(x)

    def backward(dy: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return dy / (2 * y)

    return y, backward


@op(integer_dtype="float32")
def tanh(x: Array) -> tuple[Array, Backward]:
    r"""Compute the hyperbolic tangent, which rises from -1 to 1: $y = \tanh x$, with the derivative $1 - y^2$.

    Shapes: x (...) -> (...).
    """
    y = np.tanh(x)

    def backward(dy: Array) -> Array:
        return dy * (1 - y * y)

    return y, backward


@op(integer_dtype="float32")
def sigmoid(x: Array) -> tuple[Array, Backward]:
    r"""Compute the logistic function, which rises from 0 to 1: $y = 1 / (1 + e^{-x})$, with the derivative $y (1 - y)$.

    Shapes: x (...) -> (...).
    """
    y = _logistic(x)

    def backward(dy: Array) -> Array:
        return dy * (y * (1 - y))

    return y, backward


@op(integer_dtype="int64")
def relu(x: Array) -> tuple[Array, Backward]:
    r"""Replace negative values by zero: $y = \max(x, 0)$ (Fukushima 1969). The derivative at 0 is taken as 0.

    Shapes: x (...) -> (...).
    """
    positive = x > 0
    return np.maximum(x, 0), lambda dy: np.where(positive, dy, 0)  # not NaN where dy is infinite and x negative


@op(integer_dtype="float32")
def silu(x: Array) -> tuple[Array, Backward]:
    r"""Compute the sigmoid linear unit: $y = x\, \sigma(x)$ (Elfwing et al. 2017, arXiv 1702.03118).

    Shapes: x (...) -> (...).
    """
    gate = _logistic(x)
    # The derivative of x s is s + x s (1 - s), with s = sigma(x).
    return x * gate, lambda dy: dy * (gate * (1 + x * (1 - gate)))


def gelu_formula(x: Array, *, approximate: str = "none") -> Array:
    """Compute `gelu` in plain NumPy."""
    if approximate == "tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    erf = np.vectorize(math.erf, otypes=[x.dtype])
    return x / 2 * (1 + erf(x / math.sqrt(2)))


@op
def gelu(x: Array, *, approximate: str = "none") -> tuple[Array, Backward]:
    r"""Multiply each value by the probability that a normal draw is below it: $y = x\, \Phi(x)$.

    Hendrycks and Gimpel 2016, arXiv 1606.08415. $\Phi$ is the distribution function of the standard normal
    distribution, computed exactly for ``approximate="none"``. For ``approximate="tanh"``, as GPT-2 uses,
    $y = \tfrac{x}{2} (1 + \tanh(\sqrt{2/\pi} (x + 0.044715 x^3)))$.
    Shapes: x (...) -> (...).  Raises InputError for any other value of `approximate`.
    """
    if approximate not in ("none", "tanh"):
        raise InputError(f"gelu takes approximate='none' or 'tanh', not {approximate!r}")
    exact = approximate == "none"
    # Exact: dx = dy (Phi(x) + x phi(x)), with the normal density phi = Phi'.
    # With t = tanh(u) and u = sqrt(2/pi) (x + 0.044715 x^3): dx = dy ((1 + t) / 2 + x/2 (1 - t^2) u'),
    # where u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2).
    return kernels.gelu_forward(x, exact), lambda dy: kernels.gelu_backward(dy, x, exact)


@op(integer_dtype="any")
def astype(x: Array, *, dtype: DTypeLike) -> tuple[Array, Backward]:
    """Convert to another dtype; the gradient is converted back.  Shapes: x (...) -> (...)."""
    before = x.dtype
    return x.astype(dtype), lambda dy: dy.astype(before)


def _logistic(x: Array) -> Array:
    # exp(-|x|) never overflows; for negative x the same fraction is e^x / (1 + e^x).
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small).astype(small.dtype) / (1 + small)
