"""The dual-stream feed-forward block: a narrow and a wide stream, and a gate that blends them."""

from __future__ import annotations

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.feed_forward import swiglu_linear
from minigrad.nn.layers import Linear
from minigrad.nn.module import Module


class DualStreamFeedForward(Module):
    r"""Two streams in parallel, blended element by element (Wiola, arXiv 2607.01394, eqs. 34-37).

    $a = D_A(\mathrm{silu}(G_A x) \odot U_A x)$, narrow; $b = D_B\,\mathrm{gelu}(U_B x)$, wide; and with
    $\alpha = \sigma(W_f [a; b])$ the output is $\alpha \odot a + (1 - \alpha) \odot b$. The GELU is the exact one.
    Shapes: x (rows, width) -> (rows, width).
    """

    def __init__(self, width: int, narrow: int, wide: int, *, std: float = 0.02) -> None:
        self.gate_a = Linear(width, narrow, bias=False, std=std)
        self.up_a = Linear(width, narrow, bias=False, std=std)
        self.down_a = Linear(narrow, width, bias=False, std=std)
        self.up_b = Linear(width, wide, bias=False, std=std)
        self.down_b = Linear(wide, width, bias=False, std=std)
        self.fusion = Linear(2 * width, width, bias=False, std=std)

    def forward(self, x: Tensor) -> Tensor:
        """Apply both streams to every row and blend them."""
        a = swiglu_linear(self.gate_a(x), self.up_a(x), self.down_a)
        b = self.down_b(ops.gelu(self.up_b(x)))
        return ops.blend(a, b, self.fusion(ops.concatenate(a, b, axis=-1)))
