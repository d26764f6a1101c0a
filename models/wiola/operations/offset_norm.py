"""The norm of Wiola: a learned offset is added to each row before its root mean square is taken."""

from __future__ import annotations

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.kernels.rowwise import norm as kernels
from minigrad.ops.norm import check_eps, check_weights, rms_norm_formula
from minigrad.typing import Array


def offset_rms_norm_formula(x: Array, weight: Array, offset: Array, *, eps: float = 1e-6) -> Array:
    """Compute `offset_rms_norm` in plain NumPy."""
    return rms_norm_formula(x + offset, weight, eps=eps)


@op
def offset_rms_norm(x: Array, weight: Array, offset: Array, *, eps: float = 1e-6) -> tuple[Array, Backward]:
    r"""Add a learned offset, then divide by the root mean square (Wiola, arXiv 2607.01394, eq. 9).

    $y_i = w_i\, z_i / r$ with $z = x + o$ and $r = \sqrt{\tfrac1C \sum_j z_j^2 + \epsilon}$.
    The gradient of the offset is the one of x, summed over the rows:
    $\partial L/\partial o_i = w_i g_i / r - z_i / (C r^3) \sum_k w_k g_k z_k$ with $g = \partial L/\partial y$.
    (The paper's eq. 10 has one w too many; it is right only at w = 1.)
    Shapes: x (..., C), weight (C,), offset (C,) -> (..., C).  Raises errors as `rms_norm` does.
    """
    check_weights("offset_rms_norm", x, weight, offset)
    check_eps("offset_rms_norm", eps)
    z = x + offset
    y, inverse = kernels.rms_norm_forward(z, weight, eps)

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        dz, dw = kernels.rms_norm_backward(dy, z, weight, inverse)
        return dz, dw, dz.reshape(-1, len(weight)).sum(axis=0)

    return y, backward
