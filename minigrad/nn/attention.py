"""Attention blocks: queries, keys and values of each position, attention, and a projection back to the width."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.layers import Linear
from minigrad.nn.layout import Layout
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.rotary import RotaryAngles


class SelfAttention(Module):
    """Multi-head self-attention with rotary positions, on sequences of equal length: for your own models.

    One product computes queries, keys and values. With `is_causal` no position sees a later one; a `mask` says for each
    pair which keys a query sees (see `ops.scaled_dot_product_attention`). With ``rope_theta=None`` there are no
    positions. Shapes: x (..., T, width) -> (..., T, width).
    Raises InputError unless the width is a multiple of `num_heads`, and heads that are rotated have an even size.
    """

    def __init__(
        self, width: int, num_heads: int, *, is_causal: bool = True, bias: bool = True, rope_theta: float | None = 1e4
    ) -> None:
        check_sizes(self, width=width, num_heads=num_heads)
        if width % num_heads:
            raise InputError(f"the width ({width}) must be a multiple of num_heads ({num_heads})")
        head_dim = width // num_heads
        if rope_theta is not None and head_dim % 2:
            raise InputError(f"rotary positions need heads of even size, not {head_dim}; or take rope_theta=None")
        self.num_heads, self.is_causal = num_heads, is_causal
        self.angles = None if rope_theta is None else RotaryAngles(head_dim, rope_theta)
        self.qkv = Linear(width, 3 * width, bias=bias)
        self.out = Linear(width, width, bias=bias)

    def forward(self, x: Tensor, mask: ArrayLike | Tensor | None = None) -> Tensor:
        """Attend from each position to the positions that it sees."""
        *lead, length, width = x.shape
        layout = Layout.rectangular(math.prod(lead), length)
        heads = self.qkv(x).reshape(math.prod(lead) * length, 3, self.num_heads, width // self.num_heads)
        q, k, v = (heads[:, part] for part in range(3))  # (rows, H, D)
        if self.angles is not None:
            q, k = self.angles.rotate(q, layout), self.angles.rotate(k, layout)
        if self.is_causal and mask is None:
            return self.out(ops.attention(q, k, v, offsets=layout.offsets).reshape(x.shape))
        # (..., H, T, D)
        q, k, v = (part.reshape(*lead, length, *part.shape[1:]).swapaxes(-3, -2) for part in (q, k, v))
        attended = ops.scaled_dot_product_attention(q, k, v, mask=mask, is_causal=self.is_causal)
        return self.out(attended.swapaxes(-3, -2).reshape(x.shape))


class GroupedQueryAttention(Module):
    """Causal self-attention, in which groups of query heads share keys and values; rotary positions with `angles`.

    Ainslie et al. 2023, "GQA", arXiv 2305.13245. With one key/value head per query head it is ordinary multi-head
    attention. With `key_shift`, half of each key is that of the token before (see `ops.key_shift`). `first_values` are
    those of the first layer of a model, which the layer adds to its own (Zhou et al. 2024, "Value residual learning",
    arXiv 2410.17897, who take a weighted mean of both instead).
    Shapes: x (rows, width), first_values (rows, num_kv_heads * head_dim) -> (rows, width).
    Raises InputError unless `num_heads` is a multiple of `num_kv_heads`.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        key_shift: bool = False,
        std: float = 0.02,
        out_std: float = 0.02,
    ) -> None:
        check_sizes(self, width=width, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim)
        if num_heads % num_kv_heads:
            raise InputError(f"num_heads ({num_heads}) must be a multiple of num_kv_heads ({num_kv_heads})")
        self.head_dim, self.key_shift = head_dim, key_shift
        self.q_proj = Linear(width, num_heads * head_dim, bias=False, std=std)
        self.k_proj = Linear(width, num_kv_heads * head_dim, bias=False, std=std)
        self.v_proj = Linear(width, num_kv_heads * head_dim, bias=False, std=std)
        self.o_proj = Linear(num_heads * head_dim, width, bias=False, std=out_std)

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        angles: RotaryAngles | None = None,
        cache: KeyValueCache | None = None,
        layer: int = 0,
        first_values: Tensor | None = None,
    ) -> Tensor:
        """Attend from each row to the rows of its sequence up to itself; with a cache, also to the tokens in it."""
        q, k = self._heads(self.q_proj(x)), self._heads(self.k_proj(x))
        v = self._heads(self.v_proj(x) if first_values is None else self.v_proj(x) + first_values)
        if angles is not None:
            q, k = angles.rotate(q, layout), angles.rotate(k, layout)
        key_ranges = None
        if cache is not None:
            k, v, key_ranges = cache.append(layer, k, v, layout.offsets)  # which shifts the keys
        elif self.key_shift:
            k = ops.key_shift(k, offsets=layout.offsets)
        attended = ops.attention(q, k, v, offsets=layout.offsets, key_ranges=key_ranges)
        return self.o_proj(attended.reshape(len(x), q.shape[1] * q.shape[2]))

    def _heads(self, rows: Tensor) -> Tensor:
        """Divide each row into heads: (rows, H or G * D) -> (rows, H or G, D)."""
        return rows.reshape(len(rows), rows.shape[1] // self.head_dim, self.head_dim)
