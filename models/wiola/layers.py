"""The layers that only Wiola has, except for its attention: a norm with an offset, spiral positions, two streams.

Equations are numbered as in arXiv 2607.01394.
"""

from __future__ import annotations

import numpy as np

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.feed_forward import swiglu_linear
from minigrad.nn.layers import Linear
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.parameter import Init, Parameter
from minigrad.nn.rotary import RotaryAngles
from minigrad.ops.norm import check_eps
from minigrad.typing import Array
from models.wiola.operations.gates import blend
from models.wiola.operations.offset_norm import offset_rms_norm


class WiolaRMSNorm(Module):
    """RMSNorm of the row plus a learned offset (see `operations.offset_norm`), which starts at zero."""

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        check_sizes(self, width=width)
        check_eps(type(self).__name__, eps)
        self.weight = Parameter((width,), Init(mean=1.0))
        self.offset = Parameter((width,), Init())
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each row."""
        return offset_rms_norm(x, self.weight, self.offset, eps=self.eps)


class SpiralAngles(RotaryAngles):
    r"""Tables of the spiral rotary encoding of Wiola (arXiv 2607.01394, eqs. 11-16).

    Pair j of a head at position p is rotated by $p\,\omega_j (1 + 1/k)$, the sum of two windings with
    $\omega_j = \theta^{-2j/D}$ and the second k times slower, and scaled by $r_j(p) = 1 + a \sin(p f \omega_j)$.

    The two windings are one rotation: with a = 0 this is the rotary encoding at position (1 + 1/k) p. With a > 0 norms
    are not preserved, and scores depend on more than the distance, because each pair has the factor $r_j(p)\,r_j(q)$.
    """

    def __init__(self, head_dim: int, theta: float, *, divisor: float, amplitude: float, frequency: float) -> None:
        super().__init__(head_dim, theta)
        self.divisor, self.amplitude, self.frequency = divisor, amplitude, frequency

    def _cosines_and_sines(self, positions: int) -> tuple[Array, Array]:
        phases = np.outer(np.arange(positions), self.frequencies)
        angles, radius = phases * (1 + 1 / self.divisor), 1 + self.amplitude * np.sin(phases * self.frequency)
        return radius * np.cos(angles), radius * np.sin(angles)


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
        return blend(a, b, self.fusion(ops.concatenate(a, b, axis=-1)))
