"""Vidya v1: a small decoder for conversations, trained by its author from scratch on a CPU.

RMSNorm, also after the embedding; rotary positions in interleaved pairs; multi-head attention; a GELU block four times
as wide; one matrix for embedding and head; no biases. Its source document says "8 heads, head dim 32", which describes
the 10-million model; the 49-million one has 18 heads of 32. The author initialised matrices with 0.08, later found that
to be the cause of spikes in the gradient norm, and changed to 0.02, the default here. At the width of 576 both put the
first loss far above ln V (11.3 instead of 7.7): behind the norm of the embedding, the tied head gives each token itself
a logit of width x 0.02.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minigrad import nn
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.formats.huggingface import read_fields, require_variant
from minigrad.nn import KeyValueCache, Layout
from minigrad.nn.config import (
    MOST_CONTEXT,
    MOST_HEADS,
    MOST_LAYERS,
    MOST_VOCABULARY,
    MOST_WIDTH,
    laptop_init_std,
    residual_std,
)
from minigrad.nn.language_model import LanguageModel
from minigrad.options import option, validate


class Block(nn.CheckpointedLayer):
    """One layer: attention, then the feed-forward block; each follows a norm and adds to the residual stream."""

    def __init__(self, config: VidyaV1Config) -> None:
        std, out_std, heads = config.init_std, residual_std(config), config.num_heads
        self.input_layernorm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.self_attn = nn.GroupedQueryAttention(config.width, heads, heads, config.head_dim, std=std, out_std=out_std)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.mlp = nn.GELUFeedForward(config.width, config.feed_forward, std=std, out_std=out_std)
        self.attention_dropout, self.mlp_dropout = nn.Dropout(config.dropout), nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, layout: Layout, angles: nn.RotaryAngles, cache: KeyValueCache | None = None, layer: int = 0
    ) -> Tensor:
        """Add the outputs of attention and of the feed-forward block to the residual stream x (rows, width)."""
        x = x + self.attention_dropout(self.self_attn(self.input_layernorm(x), layout, angles, cache, layer))
        return x + self.mlp_dropout(self.mlp(self.post_attention_layernorm(x)))


class VidyaV1Backbone(nn.Module):
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
        self.model = VidyaV1Backbone(config)
        self._angles = nn.RotaryAngles(config.head_dim, config.rope_theta, interleaved=True)

    def embedding(self) -> nn.Embedding:
        """Return the embedding module."""
        return self.model.embed_tokens

    def hidden(self, tokens: Tensor, layout: Layout, cache: KeyValueCache | None = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width)."""
        body = self.model
        x = body.embedding_dropout(body.embed_norm(body.embed_tokens(tokens)))
        for index, layer in enumerate(body.layers):
            x = layer(x, layout, self._angles, cache, index)
        return body.norm(x)


@dataclass(frozen=True)
class VidyaV1Config:
    """The shape of a Vidya v1 model; raises InputError for a shape that cannot be built."""

    vocab_size: int = option(2_188, "tokens in the vocabulary", at_least=1, at_most=MOST_VOCABULARY)
    num_layers: int = option(12, "layers between the embedding and the last norm", at_least=1, at_most=MOST_LAYERS)
    width: int = option(576, "elements per token in the residual stream", at_least=1, at_most=MOST_WIDTH)
    num_heads: int = option(18, "heads; num_heads * head_dim need not equal width", at_least=1, at_most=MOST_HEADS)
    head_dim: int = option(32, "elements of a head", at_least=1, at_most=MOST_HEADS)
    feed_forward: int = option(2_304, "four times the width", at_least=1, at_most=MOST_WIDTH)
    context_length: int = option(256, "tokens that a sequence may have", at_least=1, at_most=MOST_CONTEXT)
    rope_theta: float = option(10_000.0, "base of the rotary frequencies", above=1, at_most=1e15)
    norm_eps: float = option(1e-5, "added to the mean square before the root", at_least=0, at_most=1)
    init_std: float = option(0.02, "initial standard deviation of matrices; see residual_std", at_least=0)
    dropout: float = option(0.0, "on the embedding and on the output of each block", at_least=0, below=1)
    end_of_text_id: int = option(0, "the token between documents", at_least=0)

    def __post_init__(self) -> None:
        validate(self)
        if self.head_dim % 2:
            raise InputError(f"head_dim must be even, because rotary positions rotate pairs; it is {self.head_dim}")

    @property
    def num_kv_heads(self) -> int:
        """The number of key/value heads: every head has its own keys and values."""
        return self.num_heads

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits.

        In each layer the inputs of two norms and of two products, queries, keys and values, the output of attention,
        and the feed-forward block before and after the activation function.
        """
        return self.num_layers * (4 * self.width + 4 * self.num_heads * self.head_dim + 2 * self.feed_forward)

    def published(self) -> dict[str, Any]:
        """Return the content of config.json; model_type is our own, the keys are those of a Llama."""
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
        """Return whether a config.json describes a model of this family."""
        return bool(values.get("model_type") == "vidya-v1")

    @classmethod
    def from_published(cls, values: dict[str, Any]) -> VidyaV1Config:
        """Read a config.json; raises InputError for a variant that this family does not have."""
        needed = {"hidden_act": "gelu_pytorch_tanh", "rope_interleaved": True, "tie_word_embeddings": True}
        require_variant(values, needed)
        return cls(**read_fields(cls, values, _KEYS | {"eos_token_id": "end_of_text_id"}))


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
    return VidyaV1Config(vocab, layers, width, heads, head_dim, 4 * width, 2_048, init_std=laptop_init_std(width))


SIZES = {
    "nano": _laptop(6, 92, 3, 32, 4_096),
    "micro": _laptop(10, 180, 6, 32, 4_096),
    "mini": _laptop(16, 256, 8, 32, 8_192),
    "small": _laptop(20, 400, 12, 32, 8_192),
    "10m": VidyaV1Config(width=256, num_heads=8, feed_forward=1_024),
    "49m": VidyaV1Config(),
}
