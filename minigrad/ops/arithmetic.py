"""Addition, subtraction, multiplication, division and powers, element by element."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import InputError, ShapeError
from minigrad.typing import Array


@op(integer_dtype="int64")
def add(a: Array, b: Array) -> tuple[Array, Backward]:
    """Add element by element, with broadcasting: $y = a + b$.

    Shapes: a, b broadcast against each other, here and below.  Raises ShapeError if they cannot.
    """
    _check_broadcast("add", a, b)
    # The derivative of a sum with respect to each of its terms is 1.
    return a + b, lambda dy: (dy, dy)


@op(integer_dtype="int64")
def subtract(a: Array, b: Array) -> tuple[Array, Backward]:
    """Subtract element by element: $y = a - b$.  Shapes: as in `add`."""
    _check_broadcast("subtract", a, b)
    return a - b, lambda dy: (dy, -dy)


@op(integer_dtype="int64")
def multiply(a: Array, b: Array) -> tuple[Array, Backward]:
    """Multiply element by element: $y = a b$.  Shapes: as in `add`."""
    _check_broadcast("multiply", a, b)
    # The derivative of a product with respect to one factor is the other factor.
    return a * b, lambda dy: (dy * b, dy * a)


@op(integer_dtype="float32")
def divide(a: Array, b: Array) -> tuple[Array, Backward]:
    """Divide element by element: $y = a / b$.  Shapes: as in `add`."""
    _check_broadcast("divide", a, b)

    def backward(dy: Array) -> tuple[Array, Array]:
        # da = dy / b and db = -dy a / b^2.
        da = dy / b
        return da, -da * a / b

    return a / b, backward


@op(integer_dtype="int64")
def negative(x: Array) -> tuple[Array, Backward]:
    """Change the sign: $y = -x$.  Shapes: x (...) -> (...)."""
    return -x, lambda dy: -dy


@op(integer_dtype="int64")
def maximum(a: Array, b: Array) -> tuple[Array, Backward]:
    r"""Take the larger: $y = \max(a, b)$. Equal elements share the gradient.  Shapes: as in `add`."""
    _check_broadcast("maximum", a, b)
    return np.maximum(a, b), lambda dy: _shared(dy, a > b, ~(a < b))


@op(integer_dtype="int64")
def minimum(a: Array, b: Array) -> tuple[Array, Backward]:
    r"""Take the smaller: $y = \min(a, b)$. Equal elements share the gradient.  Shapes: as in `add`."""
    _check_broadcast("minimum", a, b)
    return np.minimum(a, b), lambda dy: _shared(dy, a < b, ~(a > b))


def _shared(dy: Array, a_wins: Array, a_wins_or_draws: Array) -> tuple[Array, Array]:
    # The derivative with respect to the chosen element is 1, with respect to the other one 0. If one of the two is NaN,
    # no comparison is true: neither wins, and they share the gradient.
    share = (a_wins.astype(dy.dtype) + a_wins_or_draws) / 2
    return np.where(share == 0, 0, dy) * share, np.where(share == 1, 0, dy) * (1 - share)


@op(integer_dtype="int64")
def power(x: Array, *, exponent: float) -> tuple[Array, Backward]:
    """Raise to a fixed power: $y = x^p$, with the derivative $p x^{p-1}$.

    Shapes: x (...) -> (...).  The exponent is a Python number; for a learned one write ``exp(p * log(x))``.
    Integers stay integers if the exponent is an integer too and not negative; otherwise they are computed in float32.
    Raises InputError if the exponent is not a number.
    """
    exponent = exponent.item() if isinstance(exponent, np.number) else exponent  # which would make float32 float64
    if not isinstance(exponent, int | float):
        raise InputError(f"power takes a plain number as exponent, not {exponent!r}; write exp(p * log(x)) instead")
    if x.dtype.kind != "f" and not (isinstance(exponent, int) and exponent >= 0):
        x = x.astype(np.float32)

    def backward(dy: Array) -> Array:
        # At p = 0 the result is constant; 0 * x**-1 would be NaN at x = 0.
        return dy * (exponent * x ** (exponent - 1)) if exponent != 0 else np.zeros_like(dy)

    return x**exponent, backward


def _check_broadcast(name: str, a: Array, b: Array) -> None:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise ShapeError(
            f"{name} cannot combine shapes {a.shape} and {b.shape}: counted from the right, each pair of sizes must be "
            "equal or contain a 1. Use .reshape(...) to add axes of size 1 where values should be repeated."
        ) from None
