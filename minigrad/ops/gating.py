"""Gates: let a stream through, or choose between two, number by number."""

from __future__ import annotations

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.rowwise import gating as kernels
from minigrad.typing import Array


def _check(name: str, *arrays: Array) -> None:
    if len({array.shape for array in arrays}) > 1 or not arrays[0].ndim:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ShapeError(f"{name} needs arrays of one shape (..., C); got {shapes}")


@op
def sigmoid_gate(x: Array, gate: Array) -> tuple[Array, Backward]:
    r"""Let each number through as far as its gate is open: $y = \sigma(g) \odot x$.

    Wiola (arXiv 2607.01394, eqs. 28 and 29) puts it behind the attention.
    Shapes: x (..., C), gate (..., C) -> (..., C).  Raises ShapeError if they differ.
    """
    _check("sigmoid_gate", x, gate)

    def backward(dy: Array) -> tuple[Array, ...]:
        # dx = dy s;  dg = dy x s (1 - s) with s = sigma(g).
        return kernels.sigmoid_gate_backward(dy, x, gate)

    return kernels.sigmoid_gate_forward(x, gate), backward


@op
def blend(a: Array, b: Array, gate: Array) -> tuple[Array, Backward]:
    r"""Mix two streams number by number: $y = \alpha \odot a + (1 - \alpha) \odot b$ with $\alpha = \sigma(g)$.

    The fusion of Wiola's two feed-forward streams (arXiv 2607.01394, eq. 37).
    Shapes: a, b and gate (..., C) -> (..., C).  Raises ShapeError if they differ.
    """
    _check("blend", a, b, gate)

    def backward(dy: Array) -> tuple[Array, ...]:
        # da = dy s;  db = dy (1 - s);  dg = dy (a - b) s (1 - s) with s = sigma(g).
        return kernels.blend_backward(dy, a, b, gate)

    return kernels.blend_forward(a, b, gate), backward
