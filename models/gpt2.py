"""GPT-2: learned positions, layer norms with biases, one matrix for queries, keys and values, and GELU.

Radford et al. 2019, "Language models are unsupervised multitask learners". Names, shapes and config are those of the
published checkpoints, whose matrices are stored ``[in, out]``.

The document behind the size called 300m counts 300,124,416 parameters. The shape it describes has 355,871,744: its
feed-forward row is wrong (96.5 million instead of 201.4), and it counts the tied head twice. That shape is GPT-2
Medium with 1,024 more positions.

Its list of things to try names rotary positions: with a `rope_theta`, queries and keys are rotated, and the table of
positions is left out. Such a model is not a GPT-2 to other programs, and its config.json has a type of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minigrad import nn, ops
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.experts import Experts
from minigrad.experts import settings as expert_settings
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
from minigrad.typing import Array


class Block(nn.CheckpointedLayer):
    """One layer: attention, then the feed-forward block; each follows a norm and adds to the residual stream."""

    def __init__(self, config: GPT2Config, angles: nn.RotaryAngles | None = None) -> None:
        out_std = residual_std(config)
        self.ln_1 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.attn = Attention(config, out_std, angles)
        self.ln_2 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.mlp = feed_forward(config)

    def forward(self, x: Tensor, layout: Layout, cache: KeyValueCache | None = None, layer: int = 0) -> Tensor:
        """Add the outputs of attention and of the feed-forward block to the residual stream x (rows, width)."""
        x = x + self.attn(self.ln_1(x), layout, cache, layer)
        return x + self.mlp(self.ln_2(x))


class Attention(nn.Module):
    """Causal multi-head self-attention; one product computes queries, keys and values."""

    def __init__(self, config: GPT2Config, out_std: float, angles: nn.RotaryAngles | None) -> None:
        self.num_heads, self.angles = config.num_heads, angles
        self.c_attn = nn.Conv1D(config.width, 3 * config.width, std=config.init_std)
        self.c_proj = nn.Conv1D(config.width, config.width, std=out_std)
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.dropout), nn.Dropout(config.dropout)

    def forward(self, x: Tensor, layout: Layout, cache: KeyValueCache | None = None, layer: int = 0) -> Tensor:
        """Attend from each row to the rows of its sequence up to itself; with a cache, also to the tokens in it.

        Shapes: x (rows, width) -> (rows, width).
        """
        rows, width = x.shape
        qkv = self.c_attn(x).reshape(rows, 3, self.num_heads, width // self.num_heads)
        q, k, v = (qkv[:, part] for part in range(3))  # (rows, H, D)
        if self.angles is not None:
            q, k = self.angles.rotate(q, layout), self.angles.rotate(k, layout)
        key_ranges = None
        if cache is not None:
            k, v, key_ranges = cache.append(layer, k, v, layout.offsets)
        attended = ops.attention(q, k, v, offsets=layout.offsets, key_ranges=key_ranges, **self.attn_dropout.draws())
        return self.resid_dropout(self.c_proj(attended.reshape(rows, width)))


def feed_forward(config: GPT2Config) -> Any:
    """Make the feed-forward block of a layer, or its experts, after whose sum dropout acts."""

    def block(dropout: float = 0.0) -> nn.Conv1DFeedForward:
        std, out_std = config.init_std, residual_std(config)
        return nn.Conv1DFeedForward(config.width, config.feed_forward, std=std, out_std=out_std, dropout=dropout)

    if not config.experts:
        return block(config.dropout)
    sizes, balance = (config.width, config.experts, config.experts_per_token), config.expert_balance
    return Experts(*sizes, block, std=config.init_std, balance=balance, dropout=config.dropout)


class GPT2(LanguageModel):
    """The GPT-2 language model; `model(tokens)` gives logits, `model.loss(tokens, targets)` the loss."""

    learns_positions = True  # unless they are rotary
    published_prefix = "transformer."

    def __init__(self, config: GPT2Config) -> None:
        self.config: GPT2Config = config
        self.wte = nn.Embedding(config.vocab_size, config.width, std=config.init_std)
        self.learns_positions = config.rope_theta is None
        if self.learns_positions:
            self.wpe = nn.Embedding(config.context_length, config.width, std=config.init_std)
        angles = nn.RotaryAngles(config.head_dim, config.rope_theta) if config.rope_theta is not None else None
        self.drop = nn.Dropout(config.dropout)
        self.h = [Block(config, angles) for _ in range(config.num_layers)]
        self.ln_f = nn.LayerNorm(config.width, eps=config.norm_eps)
        head = None if config.tied_head else nn.Head(config.width, config.vocab_size, std=config.init_std)
        self.lm_head = head

    def embedding(self) -> nn.Embedding:
        """Return the embedding module."""
        return self.wte

    def hidden(self, tokens: Tensor, layout: Layout, cache: KeyValueCache | None = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width)."""
        x = self.wte(tokens)
        if self.learns_positions:
            x = x + self.wpe(Tensor(layout.positions))
        x = self.drop(x)
        for index, layer in enumerate(self.h):
            x = layer(x, layout, cache, index)
        return self.ln_f(x)

    def rename_weights(self, weights: dict[str, Array]) -> dict[str, Array]:
        """Remove the prefix ``transformer.`` from the names, and the causal masks that old files contain."""
        named = {name.removeprefix("transformer."): array for name, array in weights.items()}
        return {name: each for name, each in named.items() if not name.endswith((".attn.bias", ".attn.masked_bias"))}


@dataclass(frozen=True)
class GPT2Config:
    """The shape of a GPT-2 model; raises InputError for a shape that cannot be built."""

    vocab_size: int = option(50_257, "tokens in the vocabulary", at_least=1, at_most=MOST_VOCABULARY)
    num_layers: int = option(24, "layers between the embedding and the last norm", at_least=1, at_most=MOST_LAYERS)
    width: int = option(1_024, "elements per token in the residual stream", at_least=1, at_most=MOST_WIDTH)
    num_heads: int = option(16, "heads, which share the width", at_least=1, at_most=MOST_HEADS)
    feed_forward: int = option(4_096, "four times the width", at_least=1, at_most=MOST_WIDTH)
    context_length: int = option(
        1_024, "tokens that a sequence may have, and rows of the table of positions", at_least=1, at_most=MOST_CONTEXT
    )
    rope_theta: float | None = option(
        None, "base of rotary positions, which replace the table; none: the table", above=1, at_most=1e15
    )
    norm_eps: float = option(1e-5, "added to the variance before the root", at_least=0, at_most=1)
    init_std: float = option(0.02, "initial standard deviation of matrices; see residual_std", at_least=0)
    dropout: float = option(
        0.0, "on the embedding, the attention probabilities and the output of each block", at_least=0, below=1
    )
    tied_head: bool = option(True, "whether the embedding is the head as well")
    experts: int = option(
        0, "feed-forward blocks to route tokens to; 0: one", at_least=0, at_most=expert_settings.MOST_EXPERTS
    )
    experts_per_token: int = option(2, "of the experts, how many each token passes through", at_least=1)
    expert_balance: float = option(
        0.01, "weight of the loss that balances the load of a layer's experts", at_least=0, at_most=1e3
    )
    end_of_text_id: int = option(50_256, "the token between documents", at_least=0)

    def __post_init__(self) -> None:
        validate(self)
        expert_settings.check(self)
        if self.width % self.num_heads:
            raise InputError(f"width ({self.width}) must be a multiple of num_heads ({self.num_heads})")
        if self.rope_theta is not None and self.head_dim % 2:
            raise InputError(f"width / num_heads must be even with a rope_theta; it is {self.head_dim}")

    @property
    def num_kv_heads(self) -> int:
        """The number of key/value heads: every head has its own keys and values."""
        return self.num_heads

    @property
    def head_dim(self) -> int:
        """The number of elements of a head."""
        return self.width // self.num_heads

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits.

        In each layer the inputs of two norms and of two products, queries, keys and values, the output of attention,
        and each feed-forward block that a token passes through before and after the activation function.
        """
        feed_forward = expert_settings.activations_per_token(self, 2 * self.feed_forward)
        return self.num_layers * (9 * self.width + feed_forward)

    def published(self) -> dict[str, Any]:
        """Return the config in the published format: a GPT-2 that transformers can open.

        With experts or rotary positions it is not a GPT-2, and has a type of its own.
        """
        rotary = {} if self.rope_theta is None else {"rope_theta": self.rope_theta}
        kind = "gpt2-rotary" if rotary else "gpt2-moe" if self.experts else "gpt2"
        return {
            "architectures": [_ARCHITECTURES[kind]],
            "model_type": kind,
            **rotary,
            "vocab_size": self.vocab_size,
            "n_positions": self.context_length,
            "n_ctx": self.context_length,
            "n_embd": self.width,
            "n_layer": self.num_layers,
            "n_head": self.num_heads,
            "n_inner": self.feed_forward,
            **expert_settings.published(self),
            "activation_function": "gelu_new",
            "embd_pdrop": self.dropout,
            "attn_pdrop": self.dropout,
            "resid_pdrop": self.dropout,
            "layer_norm_epsilon": self.norm_eps,
            "initializer_range": self.init_std,
            "tie_word_embeddings": self.tied_head,
            "bos_token_id": self.end_of_text_id,
            "eos_token_id": self.end_of_text_id,
        }

    @classmethod
    def recognises(cls, values: dict[str, Any]) -> bool:
        """Return whether a config.json describes a model of this family."""
        return values.get("model_type") in _ARCHITECTURES

    @classmethod
    def from_published(cls, values: dict[str, Any]) -> GPT2Config:
        """Read a GPT-2 config; raises InputError for a variant that this family does not have."""
        needed = {"activation_function": "gelu_new", "scale_attn_weights": True, "add_cross_attention": False}
        require_variant(values, needed | {"scale_attn_by_inverse_layer_idx": False})
        width = read_fields(cls, values, {"n_embd": "width"})["width"]
        defaults = {"n_inner": 4 * width, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02}
        defaults |= {"tie_word_embeddings": True, "rope_theta": None}
        given = {key: value for key, value in values.items() if key != "n_inner" or value is not None}
        return cls(**read_fields(cls, given, _KEYS, defaults) | expert_settings.read(cls, values))


_ARCHITECTURES = {"gpt2": "GPT2LMHeadModel", "gpt2-moe": "GPT2MoEForCausalLM", "gpt2-rotary": "GPT2RotaryForCausalLM"}

_KEYS = {
    "vocab_size": "vocab_size",
    "n_layer": "num_layers",
    "n_embd": "width",
    "n_head": "num_heads",
    "n_inner": "feed_forward",
    "n_positions": "context_length",
    "layer_norm_epsilon": "norm_eps",
    "initializer_range": "init_std",
    "tie_word_embeddings": "tied_head",
    "rope_theta": "rope_theta",
    "eos_token_id": "end_of_text_id",
}


def _laptop(layers: int, width: int, heads: int, vocab: int) -> GPT2Config:
    init_std = laptop_init_std(width)
    return GPT2Config(vocab, layers, width, heads, 4 * width, 256, init_std=init_std, end_of_text_id=0)


SIZES = {
    "nano": _laptop(6, 90, 3, 4_096),
    "micro": _laptop(8, 200, 5, 4_096),
    "mini": _laptop(16, 256, 8, 8_192),
    "small": _laptop(18, 416, 13, 8_192),
    "124m": GPT2Config(num_layers=12, width=768, num_heads=12, feed_forward=3_072),
    "300m": GPT2Config(context_length=2_048),
    "medium": GPT2Config(),
    "large": GPT2Config(num_layers=36, width=1_280, num_heads=20, feed_forward=5_120),
}
