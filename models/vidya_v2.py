"""Vidya v2: a deep, narrow Llama-style decoder, as in SmolLM2-135M and MobileLLM-125M.

Pre-norm with RMSNorm, rotary positions with theta 100,000, three query heads to each key/value head, SwiGLU, one matrix
for embedding and head (unless `tied_head` is off), no biases. Names, shapes and config are those of the published Llama
checkpoints. Runs of the laptop sizes add one thing that no Llama has: with `key_shift`, half of each key is that of the
token before, and copying from the context is learned early (see `minigrad.ops.key_shift`).

Its source document calls the 576-wide model "135M": that is the count at SmolLM2's vocabulary of 49,152 (134,515,008);
at its own vocabulary of 32,000 the model has 124,635,456 parameters and the shape of MobileLLM-125M.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minigrad import nn
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.experts import Experts
from minigrad.experts import settings as expert_settings
from minigrad.formats.huggingface import read_fields, require_variant
from minigrad.nn import KeyValueCache, Layout, rotary_settings
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

    def __init__(self, config: VidyaV2Config) -> None:
        std, out_std = config.init_std, residual_std(config)
        self.input_layernorm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.self_attn = nn.GroupedQueryAttention(
            config.width,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            key_shift=config.key_shift,
            std=std,
            out_std=out_std,
        )
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.mlp = feed_forward(config)
        self.attention_dropout, self.mlp_dropout = nn.Dropout(config.dropout), nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, layout: Layout, angles: nn.RotaryAngles, cache: KeyValueCache | None = None, layer: int = 0
    ) -> Tensor:
        """Add the outputs of attention and of the feed-forward block to the residual stream x (rows, width)."""
        x = x + self.attention_dropout(self.self_attn(self.input_layernorm(x), layout, angles, cache, layer))
        return x + self.mlp_dropout(self.mlp(self.post_attention_layernorm(x)))


def feed_forward(config: VidyaV2Config) -> Any:
    """Make the feed-forward block of a layer, or its experts."""

    def block() -> nn.SwiGLUFeedForward:
        return nn.SwiGLUFeedForward(
            config.width, config.feed_forward, std=config.init_std, out_std=residual_std(config)
        )

    if not config.experts:
        return block()
    sizes = config.width, config.experts, config.experts_per_token
    return Experts(*sizes, block, std=config.init_std, balance=config.expert_balance)


class VidyaV2Backbone(nn.Module):
    """Embedding, layers and the last norm: the part of the checkpoint whose names begin with ``model.``"""

    def __init__(self, config: VidyaV2Config) -> None:
        self.embed_tokens = nn.Embedding(config.vocab_size, config.width, std=config.init_std)
        self.embedding_dropout = nn.Dropout(config.dropout)
        self.layers = [Block(config) for _ in range(config.num_layers)]
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)


class VidyaV2(LanguageModel):
    """The Vidya v2 language model; `model(tokens)` gives logits, `model.loss(tokens, targets)` the loss."""

    def __init__(self, config: VidyaV2Config) -> None:
        self.config: VidyaV2Config = config
        self.model = VidyaV2Backbone(config)
        head = None if config.tied_head else nn.Head(config.width, config.vocab_size, std=config.init_std)
        self.lm_head, self.shifts_keys = head, config.key_shift
        self._angles = rotary_settings.angles(config)

    def embedding(self) -> nn.Embedding:
        """Return the embedding module."""
        return self.model.embed_tokens

    def hidden(self, tokens: Tensor, layout: Layout, cache: KeyValueCache | None = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width)."""
        body = self.model
        x = body.embedding_dropout(body.embed_tokens(tokens))
        for index, layer in enumerate(body.layers):
            x = layer(x, layout, self._angles, cache, index)
        return body.norm(x)


@dataclass(frozen=True)
class VidyaV2Config:
    """The shape of a Vidya v2 model; raises InputError for a shape that cannot be built."""

    vocab_size: int = option(32_000, "tokens in the vocabulary", at_least=1, at_most=MOST_VOCABULARY)
    num_layers: int = option(30, "layers between the embedding and the last norm", at_least=1, at_most=MOST_LAYERS)
    width: int = option(576, "elements per token in the residual stream", at_least=1, at_most=MOST_WIDTH)
    num_heads: int = option(9, "query heads; num_heads * head_dim need not equal width", at_least=1, at_most=MOST_HEADS)
    num_kv_heads: int = option(
        3, "key/value heads, each shared by num_heads / num_kv_heads query heads", at_least=1, at_most=MOST_HEADS
    )
    head_dim: int = option(64, "elements of a head", at_least=1, at_most=MOST_HEADS)
    feed_forward: int = option(
        1_536, "about 8/3 of the width, because SwiGLU has three matrices", at_least=1, at_most=MOST_WIDTH
    )
    context_length: int = option(2_048, "tokens that a sequence may have", at_least=1, at_most=MOST_CONTEXT)
    rope_theta: float = option(
        100_000.0, "base of the rotary frequencies; Llama's first was 10,000", above=1, at_most=1e15
    )
    rope_scaling: str | None = option(
        None, "scaling for sequences longer than those trained on", choices=rotary_settings.SCALINGS
    )
    rope_factor: float = option(1.0, "how many times longer they are", at_least=1, at_most=1e6)
    rope_original_context: int | None = option(
        None, "the context length in training, if rope_scaling extends it", at_most=MOST_CONTEXT
    )
    rope_beta_fast: float = option(
        32.0, "yarn keeps pairs that rotate more often than this in the original context", at_most=1e6
    )
    rope_beta_slow: float = option(1.0, "yarn divides by rope_factor what rotates less often than this", above=0)
    rope_attention_factor: float | None = option(
        None,
        "the factor by which yarn multiplies queries and keys; None: 0.1 ln(rope_factor) + 1",
        above=0,
        at_most=1e6,
    )
    norm_eps: float = option(1e-5, "added to the mean square before the root", at_least=0, at_most=1)
    init_std: float = option(0.02, "initial standard deviation of matrices; see residual_std", at_least=0)
    dropout: float = option(0.0, "on the embedding and on the output of each block", at_least=0, below=1)
    tied_head: bool = option(True, "whether the embedding is the head as well")
    key_shift: bool = option(False, "whether half of each key is that of the token before; Llama has no such thing")
    experts: int = option(
        0,
        "feed-forward blocks of a layer, and a router for each token; 0: one, and no router",
        at_least=0,
        at_most=expert_settings.MOST_EXPERTS,
    )
    experts_per_token: int = option(
        2, "of the experts, if there are some, how many each token passes through", at_least=1
    )
    expert_balance: float = option(
        0.01, "weight of the loss that balances the load of a layer's experts", at_least=0, at_most=1e3
    )
    end_of_text_id: int = option(0, "the token between documents", at_least=0)

    def __post_init__(self) -> None:
        validate(self)
        expert_settings.check(self)
        if self.num_heads % self.num_kv_heads:
            raise InputError(
                f"num_heads ({self.num_heads}) must be a multiple of num_kv_heads ({self.num_kv_heads}), "
                "so that each key/value head serves the same number of query heads"
            )
        rotary_settings.check(self)

    def published(self) -> dict[str, Any]:
        """Return the config in the published format: a Llama that transformers can open.

        With shifted keys or experts it is not a Llama, and has a type of its own.
        """
        kind = {"architectures": ["VidyaV2ForCausalLM"], "model_type": "vidya-v2", "key_shift": self.key_shift}
        is_llama = not (self.key_shift or self.experts)
        return {
            **({"architectures": ["LlamaForCausalLM"], "model_type": "llama"} if is_llama else kind),
            "vocab_size": self.vocab_size,
            "hidden_size": self.width,
            "intermediate_size": self.feed_forward,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": self.context_length,
            **rotary_settings.published(self),
            "rms_norm_eps": self.norm_eps,
            "initializer_range": self.init_std,
            "tie_word_embeddings": self.tied_head,
            **expert_settings.published(self),
            "attention_bias": False,
            "mlp_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": self.end_of_text_id,
            "eos_token_id": self.end_of_text_id,
            "pad_token_id": self.end_of_text_id,
        }

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits.

        In each layer the inputs of two norms and of two products, queries, keys and values, the output of attention,
        and two rows of each feed-forward block that a token passes through.
        """
        queries, keys = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        feed_forward = expert_settings.activations_per_token(self, 2 * self.feed_forward)
        return self.num_layers * (4 * self.width + 2 * queries + 2 * keys + feed_forward)

    @classmethod
    def recognises(cls, values: dict[str, Any]) -> bool:
        """Return whether a config.json describes a model of this family."""
        return values.get("model_type") in ("llama", "vidya-v2")

    @classmethod
    def from_published(cls, values: dict[str, Any]) -> VidyaV2Config:
        """Read a Llama config; raises InputError for a variant that this family does not have."""
        require_variant(values, {"attention_bias": False, "mlp_bias": False, "hidden_act": "silu"})
        heads = read_fields(cls, values, {"num_attention_heads": "num_heads", "hidden_size": "width"})
        defaults = {
            "num_key_value_heads": heads["num_heads"],
            "head_dim": max(1, heads["width"] // heads["num_heads"]),
            "initializer_range": 0.02,
            "tie_word_embeddings": False,  # the default of a Llama is two matrices
            "key_shift": values["model_type"] == "vidya-v2",  # a type that was first written for nothing else
        }
        given = {key: value for key, value in values.items() if key != "head_dim" or value is not None}
        fields = read_fields(cls, given, _KEYS, defaults) | expert_settings.read(cls, values)
        return cls(**fields, **rotary_settings.read(values))


_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "width",
    "intermediate_size": "feed_forward",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "head_dim": "head_dim",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "norm_eps",
    "initializer_range": "init_std",
    "tie_word_embeddings": "tied_head",
    "key_shift": "key_shift",
    "eos_token_id": "end_of_text_id",
}


def _laptop(layers: int, width: int, heads: int, head_dim: int, feed_forward: int, vocab: int) -> VidyaV2Config:
    init_std = laptop_init_std(width)
    return VidyaV2Config(vocab, layers, width, heads, heads // 3, head_dim, feed_forward, init_std=init_std)


SIZES = {
    "nano": _laptop(6, 96, 3, 32, 256, 4_096),
    "micro": _laptop(10, 192, 6, 32, 512, 4_096),
    "mini": _laptop(14, 288, 9, 32, 768, 8_192),
    "small": _laptop(24, 384, 6, 64, 1_024, 8_192),
    "2.0": VidyaV2Config(),
    "2.1": VidyaV2Config(width=768, num_heads=12, num_kv_heads=4, feed_forward=2_048),
    "2.2": VidyaV2Config(width=960, num_heads=15, num_kv_heads=5, feed_forward=2_560),
    # The document's width of 1,280 is 20 heads of 64, which have no 3:1 grouping; 21 heads are wider than 1,280.
    "2.3": VidyaV2Config(width=1_280, num_heads=21, num_kv_heads=7, feed_forward=3_456),
    "smollm2-135m": VidyaV2Config(vocab_size=49_152, context_length=8_192),
    "mobilellm-125m": VidyaV2Config(),
}
