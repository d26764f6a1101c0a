"""The norm of Wiola: RMSNorm of the row plus a learned offset."""

from __future__ import annotations

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.parameter import Init, Parameter
from minigrad.ops.norm import check_eps


class WiolaRMSNorm(Module):
    """RMSNorm of the row plus a learned offset (see `ops.offset_rms_norm`), which starts at zero."""

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        check_sizes(self, width=width)
        check_eps(type(self).__name__, eps)
        self.weight = Parameter((width,), Init(mean=1.0))
        self.offset = Parameter((width,), Init())
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each row."""
        return ops.offset_rms_norm(x, self.weight, self.offset, eps=self.eps)
