"""Vidya v1: a small decoder for conversations, trained by its author from scratch on a CPU.

RMSNorm, also after the embedding; rotary positions in interleaved pairs; multi-head attention; a GELU block four times
as wide; one matrix for embedding and head; no biases. Its source document says "8 heads, head dim 32", which describes
the 10-million model; the 49-million one has 18 heads of 32. The author initialised matrices with 0.08, later found that
to be the cause of spikes in the gradient norm, and changed to 0.02, the default here. At the width of 576 both put the
first loss far above ln V (11.3 instead of 7.7): after the norm of the embedding, the tied head gives each token itself
a logit of width x 0.02.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from minigrad import nn
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn import KeyValueCache, Layout, fields
from minigrad.nn.config import ModelConfig, always, copies, laptop_init_std, own_token, residual_std
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


@dataclass(frozen=True, kw_only=True)  # the order of the fields is that of config.json
class VidyaV1Config(ModelConfig):
    """The shape of a Vidya v1 model; raises InputError for a shape that cannot be built.

    config.json has a type of our own, with the keys of a Llama.
    """

    model_types: ClassVar = {"vidya-v1": "VidyaV1ForCausalLM"}

    vocab_size: int = option(2_188, **fields.VOCABULARY, published="vocab_size")
    width: int = option(576, **fields.WIDTH, published="hidden_size")
    feed_forward: int = option(2_304, **fields.INNER, published="intermediate_size")
    num_layers: int = option(12, **fields.LAYERS, published="num_hidden_layers")
    num_heads: int = option(18, **fields.HEADS, published="num_attention_heads")
    head_dim: int = option(32, **fields.HEAD_DIM, published="head_dim")
    context_length: int = option(256, **fields.CONTEXT, published="max_position_embeddings")
    rope_theta: float = option(10_000.0, **fields.THETA, published="rope_theta")
    norm_eps: float = option(1e-5, **fields.EPS, published="rms_norm_eps")
    init_std: float = option(0.02, **fields.STD, published="initializer_range")
    dropout: float = option(0.0, **fields.DROPOUT)
    variant = always(hidden_act="gelu_pytorch_tanh", rope_interleaved=True, tie_word_embeddings=True)
    begin_of_text_id: int | None = option(None, **fields.BEGIN_OF_TEXT)
    begin = own_token("bos_token_id", "begin_of_text_id")
    end_of_text_id: int = option(0, **fields.END_OF_TEXT, published="eos_token_id")
    padding = copies("end_of_text_id", "pad_token_id")

    def __post_init__(self) -> None:
        validate(self)
        if self.head_dim % 2:
            raise InputError(f"head_dim must be even, because rotary positions rotate pairs; it is {self.head_dim}")

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits.

        In each layer the inputs of two norms and of two products, queries, keys and values, the output of attention,
        and the feed-forward block before and after the activation function.
        """
        return self.num_layers * (4 * self.width + 4 * self.num_heads * self.head_dim + 2 * self.feed_forward)


def _shape(layers: int, width: int, heads: int, **others: Any) -> VidyaV1Config:
    return VidyaV1Config(num_layers=layers, width=width, num_heads=heads, feed_forward=4 * width, **others)


def _laptop(layers: int, width: int, heads: int, vocab: int) -> VidyaV1Config:
    std = laptop_init_std(width)
    return _shape(layers, width, heads, vocab_size=vocab, context_length=2_048, init_std=std)


SIZES = {
    "nano": _laptop(6, 92, 3, 4_096),
    "micro": _laptop(10, 180, 6, 4_096),
    "mini": _laptop(16, 256, 8, 8_192),
    "small": _laptop(20, 400, 12, 8_192),
    "10m": _shape(12, 256, 8),
    "49m": VidyaV1Config(),
}
