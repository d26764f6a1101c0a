"""Gated cross-layer attention: attention over earlier tokens, and over summaries of the layers below.

Wiola, arXiv 2607.01394, section VII. The paper summarises a layer by the mean of its output over the whole sequence
(eq. 20), later positions included, and every position of the next layers would see it. Here each position t has its own
summary, the mean over positions up to t. At the last position the two are equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad import ops
from minigrad.autograd.observers import composite
from minigrad.autograd.tensor import Tensor
from minigrad.nn.layers import Linear
from minigrad.nn.layout import Layout
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.parameter import Init, Parameter
from minigrad.typing import Array
from models.wiola.cache import Pending, WiolaCache
from models.wiola.layers import SpiralAngles
from models.wiola.operations.context_attention import context_attention
from models.wiola.operations.gates import sigmoid_gate


class Pass(NamedTuple):
    """The arguments of a layer that describe the rows of a forward pass, without their values."""

    layout: Layout
    angles: SpiralAngles
    cache: WiolaCache | None = None
    layer: int = 0

    @property
    def pending(self) -> Pending | None:
        """The state of this layer for the newest token of each cached sequence; None without a cache."""
        return None if self.cache is None else self.cache.pending[self.layer]


def block_order(num_heads: int, num_kv_heads: int) -> Array:
    """Return the order of query heads that converts the paper's grouping into that of its authors' package.

    In the paper head h belongs to group h mod G; in the authors' package, and so presumably in the released weights, to
    group h // (H / G). The two differ only in the order of the heads: new head g (H / G) + i is old head i G + g.
    Shapes: -> (H,).
    """
    return np.arange(num_heads).reshape(-1, num_kv_heads).T.reshape(-1)


@composite
def with_context(attended: Tensor, q: Tensor, k: Tensor, v: Tensor, logit: Tensor) -> Tensor:
    r"""Blend self-attention with attention over the summaries, whose share is $\beta = \sigma(logit)$ (eq. 27).

    Shapes: attended and q (rows, H, D), k and v (rows, L, G, D), logit () -> (rows, H, D).
    """
    beta = ops.sigmoid(logit)
    return attended * (1 - beta) + context_attention(q, k, v) * beta


class GatedCrossLayerAttention(Module):
    r"""Causal self-attention, blended with attention over the summaries of the layers below, and gated.

    $O = (1 - \beta)\, O^{self} + \beta\, O^{ctx}$ with $\beta = \sigma(\phi)$, and the output is
    $(\sigma(X W_{gate}^T) \odot O)\, W_O^T$ (eqs. 22-29). Without summaries, as in the first layer, $O = O^{self}$.
    In eq. 26 the queries are rotated and the context keys are not, as in the authors' package.
    Shapes: x (rows, C), each summary (rows, C) -> (rows, C).
    """

    def __init__(
        self, width: int, num_heads: int, num_kv_heads: int, *, gate_init: float, interleaved: bool, std: float
    ) -> None:
        check_sizes(self, width=width, num_heads=num_heads, num_kv_heads=num_kv_heads)
        self.head_dim = width // num_heads
        shared = num_kv_heads * self.head_dim
        self.q_proj = Linear(width, width, bias=False, std=std)
        self.k_proj = Linear(width, shared, bias=False, std=std)
        self.v_proj = Linear(width, shared, bias=False, std=std)
        self.o_proj = Linear(width, width, bias=False, std=std)
        self.k_ctx_proj = Linear(width, shared, bias=False, std=std)
        self.v_ctx_proj = Linear(width, shared, bias=False, std=std)
        self.gate_proj = Linear(width, width, bias=False, std=std)
        self.blend_logit = Parameter((), Init(mean=gate_init))
        self._order = block_order(num_heads, num_kv_heads) if interleaved else None

    def forward(self, x: Tensor, summaries: list[Tensor], run: Pass) -> Tensor:
        """Attend from each row to the rows of its sequence up to itself, and to its summaries."""
        q, k, v = self.queries(x), self.heads(self.k_proj, x), self.heads(self.v_proj, x)
        q, k, key_ranges = run.angles.rotate(q, run.layout), run.angles.rotate(k, run.layout), None
        if run.cache is not None:
            k, v, key_ranges = run.cache.append(run.layer, k, v, run.layout.offsets)
        attended = ops.attention(q, k, v, offsets=run.layout.offsets, key_ranges=key_ranges)
        return self.blend(x, q, attended, summaries)

    def heads(self, project: Linear, x: Tensor) -> Tensor:
        """Project and split into heads: x (..., C) -> (..., heads, D)."""
        return project(x).reshape(*x.shape[:-1], project.weight.shape[0] // self.head_dim, self.head_dim)

    def queries(self, x: Tensor) -> Tensor:
        """Return the queries before rotation, in the order in which groups of heads are consecutive."""
        q = self.heads(self.q_proj, x)
        return q if self._order is None else q[:, self._order]

    def blend(self, x: Tensor, q: Tensor, attended: Tensor, summaries: list[Tensor]) -> Tensor:
        """Blend self-attention (rows, H, D) with attention over the summaries, if any; apply the gate of x; project."""
        if summaries:
            context = ops.stack(*summaries, axis=1)  # (rows, L, C)
            k, v = self.heads(self.k_ctx_proj, context), self.heads(self.v_ctx_proj, context)
            attended = with_context(attended, q, k, v, self.blend_logit)
        if self._order is not None:
            attended = attended[:, np.argsort(self._order)]
        return self.o_proj(sigmoid_gate(attended.reshape(len(x), self.q_proj.weight.shape[0]), self.gate_proj(x)))
