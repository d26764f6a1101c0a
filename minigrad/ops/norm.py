"""Normalisation: each row scaled to one size, so that activations neither grow nor vanish in a deep network."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.rowwise import norm as kernels
from minigrad.options import checked_number
from minigrad.typing import Array


def rms_norm_formula(x: Array, weight: Array, *, eps: float = 1e-5) -> Array:
    """Compute `rms_norm` in plain NumPy."""
    r = np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)  # (..., 1)
    return weight * x / r


@op
def rms_norm(x: Array, weight: Array, *, eps: float = 1e-5) -> tuple[Array, Backward]:
    r"""Divide each row by its root mean square (Zhang and Sennrich 2019, arXiv 1910.07467, eq. 4).

    $y_i = w_i\, x_i / r$ with $r = \sqrt{\tfrac1C \sum_j x_j^2 + \epsilon}$. A row whose squares overflow is NaN.
    Shapes: x (..., C), weight (C,) -> (..., C).  Raises ShapeError if the weight does not fit, InputError if eps < 0.

    >>> from minigrad import Tensor, ops
    >>> ops.rms_norm(Tensor([[2.0, -2.0]]), Tensor([1.0, 3.0]), eps=0.0).data.round(3).tolist()
    [[1.0, -3.0]]
    """
    check_weights("rms_norm", x, weight)
    check_eps("rms_norm", eps)
    y, inverse = kernels.rms_norm_forward(x, weight, eps)
    # With g = dy w and dr/dx_i = x_i / (C r): dx_i = g_i / r - x_i / (C r^3) sum_j g_j x_j.
    # dw is dy x / r, summed over the rows.
    return y, lambda dy: kernels.rms_norm_backward(dy, x, weight, inverse)


def layer_norm_formula(x: Array, weight: Array, bias: Array, *, eps: float = 1e-5) -> Array:
    """Compute `layer_norm` in plain NumPy."""
    z = x - x.mean(axis=-1, keepdims=True)
    s = np.sqrt((z * z).mean(axis=-1, keepdims=True) + eps)  # (..., 1)
    return weight * z / s + bias


@op
def layer_norm(x: Array, weight: Array, bias: Array, *, eps: float = 1e-5) -> tuple[Array, Backward]:
    r"""Shift each row to mean 0 and scale it to variance 1 (Ba et al. 2016, arXiv 1607.06450, eq. 4).

    $y_i = w_i (x_i - \mu) / s + b_i$ with the row's mean $\mu$ and $s = \sqrt{\mathrm{var} + \epsilon}$.
    Shapes: x (..., C), weight (C,), bias (C,) -> (..., C).  Raises errors as `rms_norm` does.
    """
    check_weights("layer_norm", x, weight, bias)
    check_eps("layer_norm", eps)
    y, mean, inverse = kernels.layer_norm_forward(x, weight, bias, eps)
    # With z = x - mean and g = dy w, dz is as in rms_norm. Subtracting the mean has the gradient
    # dx = dz - mean(dz), and mean(dz) = mean(g) / s because the elements of z sum to 0:
    # dx_i = (g_i - mean(g)) / s - z_i / (C s^3) sum_j g_j z_j.
    # dw is dy z / s, and db is dy, both summed over the rows.
    return y, lambda dy: kernels.layer_norm_backward(dy, x, weight, mean, inverse)


def check_eps(owner: str, eps: float) -> None:
    """Raise InputError, naming the norm, unless eps is at least 0."""
    checked_number(f"eps of {owner}", eps, at_least=0)


def check_weights(name: str, x: Array, *weights: Array) -> None:
    """Raise ShapeError, naming the norm, unless each of its weights has one element for each of a row."""
    if x.ndim and not x.shape[-1]:
        raise ShapeError(f"{name} needs rows of at least one element: input {x.shape}")
    for weight in weights:
        if not x.ndim or weight.shape != x.shape[-1:]:
            raise ShapeError(
                f"{name} needs one weight per element of a row: input {x.shape}, weight {weight.shape}, "
                f"expected {x.shape[-1:] if x.ndim else '(C,)'}"
            )
