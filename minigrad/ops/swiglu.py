"""SwiGLU: the gated bend inside today's feed-forward blocks."""

from __future__ import annotations

from minigrad.errors import ShapeError
from minigrad.graph import Array, Backward
from minigrad.kernels import swiglu as kernels
from minigrad.op import op


@op
def swiglu(gate: Array, up: Array) -> tuple[Array, Backward]:
    r"""Let one stream open and close the other: $y = \mathrm{silu}(g)\, u = g\,\sigma(g)\,u$.

    Shazeer 2020, "GLU variants improve transformer", arXiv 2002.05202, eq. 5; the two matrix products that make
    gate and up are separate.  Shapes: gate (..., F), up (..., F) -> (..., F).  Raises ShapeError if they differ.
    """
    if gate.shape != up.shape or not gate.ndim:
        raise ShapeError(f"swiglu needs gate and up of one shape (..., F); got {gate.shape} and {up.shape}")

    def backward(dy: Array) -> tuple[Array, Array]:
        # du = dy silu(g);  dg = dy u s (1 + g (1 - s)) with s = sigma(g).
        return kernels.swiglu_backward(dy, gate, up)

    return kernels.swiglu_forward(gate, up), backward
