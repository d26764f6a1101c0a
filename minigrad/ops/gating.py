"""SwiGLU, the gated activation function inside today's feed-forward blocks: one stream scales another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.op import op
from minigrad.autograd.profile import FLOPS
from minigrad.errors import ShapeError
from minigrad.kernels.gemm.backend import product, product_into
from minigrad.kernels.rowwise import gating as kernels
from minigrad.typing import Array


def swiglu_formula(gate: Array, up: Array) -> Array:
    """Compute `swiglu` in plain NumPy."""
    return gate / (1 + np.exp(-gate)) * up


@op
def swiglu(gate: Array, up: Array) -> tuple[Array, Backward]:
    r"""Multiply `up` by the SiLU of `gate`: $y = \mathrm{silu}(g)\, u = g\,\sigma(g)\,u$.

    Shazeer 2020, "GLU variants improve transformer", arXiv 2002.05202, eq. 5; the two matrix products that compute
    gate and up are separate.  Shapes: gate (..., F), up (..., F) -> (..., F).  Raises ShapeError if they differ.
    """
    check_one_shape("swiglu", gate, up)
    # With s = sigma(g): the derivative of silu(g) = g s is s + g s (1 - s), so dg = dy u s (1 + g (1 - s)) and
    # du = dy g s.
    return kernels.swiglu_forward(gate, up), lambda dy: kernels.swiglu_backward(dy, gate, up)


def swiglu_linear_formula(gate: Array, up: Array, weight: Array) -> Array:
    """Compute `swiglu_linear` in plain NumPy."""
    return swiglu_formula(gate, up) @ weight.T


@op
def swiglu_linear(gate: Array, up: Array, weight: Array) -> tuple[Array, Backward]:
    r"""Apply `swiglu`, then a weight matrix: $y = \mathrm{swiglu}(g, u)\, W^T$.

    The same as ``linear(swiglu(gate, up), weight)``, but the output of `swiglu`, the widest rows inside a model, is not
    stored for the backward pass: computing it again takes a small part of the time of the product.
    Shapes: gate (..., F), up (..., F), weight (C, F) -> (..., C).  Raises ShapeError if they do not fit.
    """
    if gate.shape != up.shape or weight.ndim != 2 or gate.shape[-1:] != weight.shape[1:]:
        raise ShapeError(
            f"swiglu_linear needs gate and up of one shape (..., F) and a weight (C, F); got {gate.shape}, {up.shape} "
            f"and {weight.shape}"
        )
    count, width = math.prod(gate.shape[:-1]), gate.shape[-1]

    def backward(dy: Array) -> tuple[Array, Array, Deferred]:
        # With h = swiglu(g, u) and y = h W^T: dh = dy W, which swiglu's backward passes on, and dW = dy^T h.
        dy_rows = dy.reshape(count, len(weight))
        dgate, dup = kernels.swiglu_backward(product(dy_rows, weight).reshape(gate.shape), gate, up)

        def write(dw: Array, add: bool) -> None:
            product_into(dy_rows.T, kernels.swiglu_forward(gate, up).reshape(count, width), dw, add)

        return dgate, dup, Deferred(weight.shape, weight.dtype, write)

    rows = kernels.swiglu_forward(gate, up).reshape(count, width)
    return product(rows, weight.T).reshape(*gate.shape[:-1], len(weight)), backward


def check_one_shape(name: str, *arrays: Array) -> None:
    """Raise ShapeError, naming the operation, unless all arrays have one shape, of at least one axis."""
    if len({array.shape for array in arrays}) > 1 or not arrays[0].ndim:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ShapeError(f"{name} needs arrays of one shape (..., C); got {shapes}")


def _products(parents: Sequence[object]) -> float:
    """Count a product for the gate and what it multiplies, and one for the matrix."""
    gate, up, weight = parents
    return float((gate is not None or up is not None) + (weight is not None))


FLOPS["swiglu_linear"] = (lambda gate, up, weight: 2.0 * gate.size * weight.shape[0], 1, _products)
