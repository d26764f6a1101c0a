"""A family of one's own: it is built from existing layers and says nothing of programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minigrad import nn, ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn import Layout
from minigrad.nn.language_model import LanguageModel


@dataclass(frozen=True)
class OwnConfig:
    """The shape of the family."""

    vocab_size: int = 13
    num_layers: int = 2
    width: int = 12
    num_heads: int = 3
    num_kv_heads: int = 1
    head_dim: int = 4
    feed_forward: int = 20
    context_length: int = 24
    norm_eps: float = 1e-5
    end_of_text_id: int = 0


class Gated(nn.Module):
    """A feed-forward block in single operations."""

    def __init__(self, config: OwnConfig) -> None:
        self.gate, self.up = (nn.Linear(config.width, config.feed_forward) for _ in range(2))
        self.down = nn.Linear(config.feed_forward, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to every row."""
        return self.down(self.up(x) * ops.silu(self.gate(x)))


class Own(LanguageModel):
    """Attention and feed-forward side by side, as in GPT-J; the sum of both is normalised before it is added."""

    def __init__(self, config: OwnConfig, also: Callable[[Tensor, Layout], Tensor] = lambda x, layout: x) -> None:
        self.config: Any = config
        sizes = config.width, config.num_heads, config.num_kv_heads, config.head_dim
        self.table = nn.Embedding(config.vocab_size, config.width, std=1.0)
        self.places = nn.Embedding(config.context_length, config.width, std=1.0)
        self.attention = [nn.GroupedQueryAttention(*sizes, std=0.5, out_std=0.5) for _ in range(config.num_layers)]
        self.gated = [Gated(config) for _ in range(config.num_layers)]
        self.norms = [nn.RMSNorm(config.width) for _ in range(3 * config.num_layers)]
        self.angles, self.also = nn.RotaryAngles(config.head_dim, 100.0), also

    def embedding(self) -> nn.Embedding:
        """Return the embedding module."""
        return self.table

    def hidden(self, tokens: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        """Run the layers."""
        x = self.table(tokens) + self.places(Tensor(layout.positions))
        for index in range(self.config.num_layers):
            one, two, three = self.norms[3 * index : 3 * index + 3]
            attended = self.attention[index](one(x), layout, self.angles, cache, index)
            x = x + three(attended + self.gated[index](two(x)))
        return self.also(x, layout)
