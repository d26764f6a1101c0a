"""Vidya v1: a small decoder for conversations, trained by its author from scratch on a processor.

RMSNorm, also after the embedding; rotary positions in interleaved pairs; multi-head attention; a GELU block four times
as wide; one matrix for embedding and head; no biases. Its source document says "8 heads, head dim 32", which was the
10-million model; the 49-million one has 18 heads of 32. The author started matrices at 0.08, later blamed that for
spikes in the gradient and went to 0.02, which is the default here: at 0.08 the first loss is far above ln V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from minigrad import nn
from minigrad.errors import InputError
from minigrad.language_model import LanguageModel
from minigrad.nn import KeyValueCache, Layout
from minigrad.nn.module import Parameter
from minigrad.tensor import Tensor


@dataclass(frozen=True)
class VidyaV1Config:
    """The shape of a Vidya v1 model; raises InputError for a shape that cannot be built."""

    vocab_size: int = 2_188
    num_layers: int = 12
    width: int = 576
    num_heads: int = 18
    head_dim: int = 32
    feed_forward: int = 2_304
    context_length: int = 256
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    init_std: float = 0.02  # of every matrix; those that write into the residual stream start 1/sqrt(2 layers) smaller
    dropout: float = 0.0  # on the embedding and on what each block adds
    end_of_text_id: int = 0

    def __post_init__(self) -> None:
        names = ("vocab_size", "num_layers", "width", "num_heads", "head_dim", "feed_forward", "context_length")
        for name in names:
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.head_dim % 2:
            raise InputError(f"head_dim must be even, because rotary positions turn pairs; it is {self.head_dim}")
        if not self.rope_theta > 1:
            raise InputError(f"rope_theta must be above 1, not {self.rope_theta}")

    def activations_per_token(self) -> int:
        """Return how many numbers per token training keeps for the backward pass, the logits aside.

        In each layer the inputs of two norms and of two products, queries, keys and values, the mixture, and the
        feed-forward block before and after the bend.
        """
        return self.num_layers * (4 * self.width + 4 * self.num_heads * self.head_dim + 2 * self.feed_forward)

    def published(self) -> dict[str, Any]:
        """Return the config as config.json has it; the type is our own, with the keys of a Llama."""
        return {
            "architectures": ["VidyaV1ForCausalLM"],
            "model_type": "vidya-v1",
            **{theirs: getattr(self, ours) for theirs, ours in _KEYS.items()},
            "hidden_act": "gelu_pytorch_tanh",
            "rope_interleaved": True,
            "tie_word_embeddings": True,
            **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), self.end_of_text_id),
        }

    @classmethod
    def recognises(cls, values: dict[str, Any]) -> bool:
        """Tell whether a config.json describes a model of this family."""
        return bool(values.get("model_type") == "vidya-v1")

    @classmethod
    def from_published(cls, values: dict[str, Any]) -> VidyaV1Config:
        """Read a config.json; raises InputError for a variant that this family does not have."""
        fixed = {"hidden_act": "gelu_pytorch_tanh", "rope_interleaved": True, "tie_word_embeddings": True}
        for key, needed in fixed.items():
            if values.get(key, needed) != needed:
                raise InputError(f"config.json has {key} = {values[key]!r}; this family needs {needed!r}")
        return cls(**{ours: values[theirs] for theirs, ours in _KEYS.items()}, end_of_text_id=values["eos_token_id"])


_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "width",
    "intermediate_size": "feed_forward",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "head_dim": "head_dim",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope_theta",
    "rms_norm_eps": "norm_eps",
    "initializer_range": "init_std",
}


def _laptop(layers: int, width: int, heads: int, head_dim: int, vocab: int) -> VidyaV1Config:
    init_std = round(0.02 * math.sqrt(576 / width), 4)  # as Vidya v2's: narrow matrices start larger
    return VidyaV1Config(vocab, layers, width, heads, head_dim, 4 * width, 2_048, init_std=init_std)


SIZES = {
    "nano": _laptop(6, 92, 3, 32, 4_096),
    "micro": _laptop(10, 180, 6, 32, 4_096),
    "mini": _laptop(16, 256, 8, 32, 8_192),
    "small": _laptop(20, 400, 12, 32, 8_192),
    "10m": VidyaV1Config(width=256, num_heads=8, feed_forward=1_024),
    "49m": VidyaV1Config(),
}


class Block(nn.Layer):
    """One layer: attention, then the feed-forward block, each behind a norm, each added to the stream."""

    def __init__(self, config: VidyaV1Config) -> None:
        std, out_std, heads = config.init_std, config.init_std / math.sqrt(2 * config.num_layers), config.num_heads
        self.input_layernorm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.self_attn = nn.GroupedQueryAttention(config.width, heads, heads, config.head_dim, std=std, out_std=out_std)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.mlp = nn.GELUFeedForward(config.width, config.feed_forward, std=std, out_std=out_std)
        self.attention_dropout, self.mlp_dropout = nn.Dropout(config.dropout), nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, layout: Layout, angles: nn.RotaryAngles, cache: KeyValueCache | None, layer: int
    ) -> Tensor:
        """Add what attention and the feed-forward block have to say: x (rows, width) -> (rows, width)."""
        x = x + self.attention_dropout(self.self_attn(self.input_layernorm(x), layout, angles, cache, layer))
        return x + self.mlp_dropout(self.mlp(self.post_attention_layernorm(x)))


class Decoder(nn.Module):
    """Embedding and its norm, layers, and the last norm."""

    def __init__(self, config: VidyaV1Config) -> None:
        self.embed_tokens = nn.Embedding(config.vocab_size, config.width, std=config.init_std)
        self.embed_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.embedding_dropout = nn.Dropout(config.dropout)
        self.layers = [Block(config) for _ in range(config.num_layers)]
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)


class VidyaV1(LanguageModel):
    """The Vidya v1 language model; `model(tokens)` gives logits, `model.loss(tokens, targets)` the loss."""

    def __init__(self, config: VidyaV1Config) -> None:
        self.config: VidyaV1Config = config
        self.model = Decoder(config)
        self._angles = nn.RotaryAngles(config.head_dim, config.rope_theta, interleaved=True)

    def hidden(self, tokens: Tensor, layout: Layout, cache: KeyValueCache | None = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width)."""
        x = self.model.embedding_dropout(self.model.embed_norm(self.model.embed_tokens(tokens)))
        for number, layer in enumerate(self.model.layers):
            x = layer(x, layout, self._angles, cache, number)
        return self.model.norm(x)

    def head(self) -> Parameter:
        """Return the embedding, which is the head as well (tied)."""
        return self.model.embed_tokens.weight

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> KeyValueCache:
        """Return an empty cache for `batch_size` texts of up to `max_length` tokens (by default the context)."""
        config, dtype = self.config, self.head().dtype
        length = config.context_length if max_length is None else max_length
        return KeyValueCache(config.num_layers, batch_size, length, config.num_heads, config.head_dim, dtype)
