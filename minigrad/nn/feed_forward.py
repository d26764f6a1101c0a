"""Feed-forward blocks: two or three matrices with an activation function between them, applied to each row."""

from __future__ import annotations

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.layers import Conv1D, Dropout, Linear
from minigrad.nn.module import Module


def swiglu_linear(gate: Tensor, up: Tensor, down: Module) -> Tensor:
    """Apply a SwiGLU, then a layer: as one operation if that is a plain matrix, and not a layer of another kind."""
    if type(down) is not Linear or down.bias is not None:
        return down(ops.swiglu(gate, up))
    return ops.swiglu_linear(gate, up, down.weight)


class SwiGLUFeedForward(Module):
    r"""Three matrices with a SwiGLU between them: $y = (\mathrm{silu}(x W_{gate}^T) \odot x W_{up}^T)\, W_{down}^T$.

    Shazeer 2020, arXiv 2002.05202, eq. 6.  Shapes: x (rows, width) -> (rows, width).
    """

    def __init__(self, width: int, hidden: int, *, std: float = 0.02, out_std: float = 0.02) -> None:
        self.gate_proj = Linear(width, hidden, bias=False, std=std)
        self.up_proj = Linear(width, hidden, bias=False, std=std)
        self.down_proj = Linear(hidden, width, bias=False, std=out_std)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to every row."""
        return swiglu_linear(self.gate_proj(x), self.up_proj(x), self.down_proj)


class GELUFeedForward(Module):
    r"""Two matrices with a GELU between them: $y = \mathrm{gelu}(x W_1^T)\, W_2^T$, in GPT-2's tanh form.

    Vaswani et al. 2017, eq. 2, with another activation function and no biases.
    Shapes: x (rows, width) -> (rows, width).
    """

    def __init__(self, width: int, hidden: int, *, std: float = 0.02, out_std: float = 0.02) -> None:
        self.fc1 = Linear(width, hidden, bias=False, std=std)
        self.fc2 = Linear(hidden, width, bias=False, std=out_std)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to every row."""
        return self.fc2(ops.gelu(self.fc1(x), approximate="tanh"))


class Conv1DFeedForward(Module):
    r"""Two matrices with biases and a GELU between them, stored ``[in, out]`` as in GPT-2, then dropout.

    $y = \mathrm{gelu}(x W_1 + b_1)\, W_2 + b_2$, in GPT-2's tanh form.  Shapes: x (rows, width) -> (rows, width).
    """

    def __init__(
        self, width: int, hidden: int, *, std: float = 0.02, out_std: float = 0.02, dropout: float = 0.0
    ) -> None:
        self.c_fc = Conv1D(width, hidden, std=std)
        self.c_proj = Conv1D(hidden, width, std=out_std)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to every row."""
        return self.dropout(self.c_proj(ops.gelu(self.c_fc(x), approximate="tanh")))
