"""The two gates of Wiola: scale a stream, or interpolate between two streams, element by element."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.ops.gating import check_one_shape
from minigrad.typing import Array
from models.wiola.kernels import gates as kernels


def sigmoid_gate_formula(x: Array, gate: Array) -> Array:
    """Compute `sigmoid_gate` in plain NumPy."""
    return x / (1 + np.exp(-gate))


@op
def sigmoid_gate(x: Array, gate: Array) -> tuple[Array, Backward]:
    r"""Multiply each element by the logistic function of its gate: $y = \sigma(g) \odot x$.

    Wiola (arXiv 2607.01394, eqs. 28 and 29) applies it to the output of attention.
    Shapes: x (..., C), gate (..., C) -> (..., C).  Raises ShapeError if they differ.
    """
    check_one_shape("sigmoid_gate", x, gate)
    # With s = sigma(g), whose derivative is s (1 - s): dx = dy s and dg = dy x s (1 - s).
    return kernels.sigmoid_gate_forward(x, gate), lambda dy: kernels.sigmoid_gate_backward(dy, x, gate)


def blend_formula(a: Array, b: Array, gate: Array) -> Array:
    """Compute `blend` in plain NumPy."""
    alpha = 1 / (1 + np.exp(-gate))
    return alpha * a + (1 - alpha) * b


@op
def blend(a: Array, b: Array, gate: Array) -> tuple[Array, Backward]:
    r"""Interpolate between two streams: $y = \alpha \odot a + (1 - \alpha) \odot b$ with $\alpha = \sigma(g)$.

    Wiola (arXiv 2607.01394, eq. 37) fuses its two feed-forward streams in this way.
    Shapes: a, b and gate (..., C) -> (..., C).  Raises ShapeError if they differ.
    """
    check_one_shape("blend", a, b, gate)
    # With s = sigma(g): da = dy s, db = dy (1 - s) and dg = dy (a - b) s (1 - s).
    return kernels.blend_forward(a, b, gate), lambda dy: kernels.blend_backward(dy, a, b, gate)
