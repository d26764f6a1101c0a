"""VSLA: a GPT-2 whose layers attend in different patterns, on sequences of any lengths without padding.

The variable-shape transformer ("VSLA 1B Parameter Transformer Architecture Analysis", 2025) was a plan that its library
could not run. Its shape is that of GPT-2: learned positions, layer norms with biases, GELU. What it adds is a pattern
of attention for each layer: full, local, sparse, pyramid or adaptive (`models.vsla.patterns`). The document names them,
and plans learned patterns too; the definitions here are causal. Names and shapes of the weights are GPT-2's: with
"full" in every layer it computes what GPT-2 computes with the same weights.

The document counts about 1.1 billion parameters. The shape that it describes has 1,319,917,568, with biases.
"""

from __future__ import annotations

from minigrad import nn
from minigrad.autograd.tensor import Tensor
from minigrad.nn import Layout
from minigrad.nn.config import residual_std
from minigrad.nn.language_model import LanguageModel
from models.vsla.config import VSLAConfig
from models.vsla.patterns import AttentionPattern, LearnedPattern, PatternCache


class Block(nn.CheckpointedLayer):
    """One layer: attention, then the feed-forward block; each follows a norm and adds to the residual stream."""

    def __init__(self, config: VSLAConfig, layer: int) -> None:
        self.ln_1 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.attn = Attention(config, layer)
        self.ln_2 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.mlp = nn.Conv1DFeedForward(
            config.width, config.feed_forward, std=config.init_std, out_std=residual_std(config), dropout=config.dropout
        )

    def forward(self, x: Tensor, layout: Layout, cache: PatternCache | None = None, layer: int = 0) -> Tensor:
        """Add the outputs of attention and of the feed-forward block to the residual stream x (rows, width)."""
        x = x + self.attn(self.ln_1(x), layout, cache, layer)
        return x + self.mlp(self.ln_2(x))


class Attention(nn.Module):
    """Causal multi-head self-attention in the pattern of its layer; one product computes queries, keys and values."""

    def __init__(self, config: VSLAConfig, layer: int) -> None:
        self.num_heads = config.num_heads
        self.pattern: AttentionPattern | LearnedPattern = config.pattern(layer)
        self.c_attn = nn.Conv1D(config.width, 3 * config.width, std=config.init_std)
        self.c_proj = nn.Conv1D(config.width, config.width, std=residual_std(config))
        self.resid_dropout = nn.Dropout(config.dropout)

    def figures(self) -> dict[str, float | list[float]]:
        """Return the share of tokens that saw far keys in the last training pass, in an adaptive layer."""
        if isinstance(self.pattern, AttentionPattern) and self.pattern.kind == "adaptive":
            return {"far_share": self.pattern.far_share}
        return {}

    def describe_attention(self) -> str:
        """Say in a sentence which tokens a token attends to, for the page that explains a text; "" if it is learned."""
        return self.pattern.describe() if isinstance(self.pattern, AttentionPattern) else ""

    def forward(self, x: Tensor, layout: Layout, cache: PatternCache | None = None, layer: int = 0) -> Tensor:
        """Attend from each row to rows of its sequence up to itself; with a cache, also to the tokens in it.

        Shapes: x (rows, width) -> (rows, width).
        """
        rows, width = x.shape
        qkv = self.c_attn(x).reshape(rows, 3, self.num_heads, width // self.num_heads)
        q, k, v = (qkv[:, part] for part in range(3))  # (rows, H, D)
        key_ranges = far = None
        if cache is not None:
            k, v, key_ranges = cache.append(layer, k, v, layout.offsets)
            far = cache.far(layer, key_ranges)
        attended = self.pattern.attend(q, k, v, layout.offsets, key_ranges, far)
        return self.resid_dropout(self.c_proj(attended.reshape(rows, width)))


class VSLA(LanguageModel):
    """The VSLA language model; `model(tokens)` gives logits, `model.loss(tokens, targets)` the loss."""

    learns_positions = True

    def __init__(self, config: VSLAConfig) -> None:
        self.config: VSLAConfig = config
        self.wte = nn.Embedding(config.vocab_size, config.width, std=config.init_std)
        self.wpe = nn.Embedding(config.context_length, config.width, std=config.init_std)
        self.drop = nn.Dropout(config.dropout)
        self.h = [Block(config, layer) for layer in range(config.num_layers)]
        self.ln_f = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.lm_head = None if config.tied_head else nn.Head(config.width, config.vocab_size, std=config.init_std)

    def embedding(self) -> nn.Embedding:
        """Return the embedding module."""
        return self.wte

    def hidden(self, tokens: Tensor, layout: Layout, cache: PatternCache | None = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width)."""
        x = self.drop(self.wte(tokens) + self.wpe(Tensor(layout.positions)))
        for index, layer in enumerate(self.h):
            x = layer(x, layout, cache, index)
        return self.ln_f(x)

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> PatternCache:
        """Return an empty cache for `batch_size` sequences of up to `max_length` tokens (by default the context)."""
        config, length = self.config, self.config.context_length if max_length is None else max_length
        patterns = [block.attn.pattern for block in self.h]
        shape = batch_size, length, config.num_heads, config.head_dim
        return PatternCache(patterns, *shape, self.head().dtype).in_format(self.cache_format)

    def macs_per_token(self, context: float) -> float:
        """Return the multiply-adds of one forward pass per token; attention counts the keys that its pattern shows."""
        keys = sum(block.attn.pattern.keys_per_token(context) for block in self.h)
        full = self.config.num_layers * context / 2
        return super().macs_per_token(context) + 2 * self.config.width * (keys - full)

    def measurements(self) -> dict[str, list[float]]:
        """Return the figures of all modules, and the mean shares of the candidates of each learned layer in turn."""
        patterns = (block.attn.pattern for block in self.h)
        learned = [each.shares().data.mean(axis=0) for each in patterns if isinstance(each, LearnedPattern)]
        shares = [float(share) for layer in learned for share in layer]
        return super().measurements() | ({"pattern_share": shares} if shares else {})
