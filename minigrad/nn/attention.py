"""The attention block: queries, keys and values of each row, attention, and a projection back to the width."""

from __future__ import annotations

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.layers import Linear
from minigrad.nn.layout import Layout
from minigrad.nn.module import Module
from minigrad.nn.rotary import RotaryAngles


class GroupedQueryAttention(Module):
    """Causal self-attention with rotary positions, in which groups of query heads share keys and values.

    Ainslie et al. 2023, "GQA", arXiv 2305.13245. With one key/value head per query head it is ordinary multi-head
    attention. Shapes: x (rows, width) -> (rows, width).
    """

    def __init__(
        self, width: int, num_heads: int, num_kv_heads: int, head_dim: int, *, std: float = 0.02, out_std: float = 0.02
    ) -> None:
        self.head_dim = head_dim
        self.q_proj = Linear(width, num_heads * head_dim, std=std)
        self.k_proj = Linear(width, num_kv_heads * head_dim, std=std)
        self.v_proj = Linear(width, num_kv_heads * head_dim, std=std)
        self.o_proj = Linear(num_heads * head_dim, width, std=out_std)

    def forward(
        self, x: Tensor, layout: Layout, angles: RotaryAngles, cache: KeyValueCache | None = None, layer: int = 0
    ) -> Tensor:
        """Attend from each row to the rows of its sequence up to itself; with a cache, also to the tokens in it."""
        q, k, v = (
            project(x).reshape(len(x), project.weight.shape[0] // self.head_dim, self.head_dim)  # (rows, H or G, D)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = angles.rotate(q, layout), angles.rotate(k, layout)
        key_ranges = None
        if cache is not None:
            k, v, key_ranges = cache.append(layer, k, v)
        attended = ops.attention(q, k, v, offsets=layout.offsets, key_ranges=key_ranges)
        return self.o_proj(attended.reshape(len(x), self.q_proj.weight.shape[0]))
