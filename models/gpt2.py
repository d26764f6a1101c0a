"""GPT-2: learned positions, layer norms with biases, one matrix for queries, keys and values, and GELU.

Radford et al. 2019, "Language models are unsupervised multitask learners". Names, shapes and config are those of the
published checkpoints, whose matrices are stored ``[in, out]``.

The document behind the size called 300m counts 300,124,416 parameters. The shape it describes has 355,871,744: its
feed-forward row is wrong (96.5 million instead of 201.4), biases are missing, and its total leaves out positions and
norms, and counts the tied head twice. That shape is GPT-2 Medium with 1,024 more positions.

Its list of things to try names rotary positions: with a `rope_theta`, queries and keys are rotated, and the table of
positions is left out. Such a model is not a GPT-2 to other programs, and its config.json has a type of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from minigrad import nn, ops
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.experts import Experts
from minigrad.experts import settings as expert_settings
from minigrad.experts.settings import ExpertConfig
from minigrad.nn import KeyValueCache, Layout, fields
from minigrad.nn.config import Entries, always, copies, laptop_init_std, needed, own_token, residual_std
from minigrad.nn.language_model import LanguageModel
from minigrad.options import option, validate


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
        self.lm_head = None if config.tied_head else nn.Head(config.width, config.vocab_size, std=config.init_std)

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


@dataclass(frozen=True, kw_only=True)  # the order of the fields is that of config.json
class GPT2Config(ExpertConfig):
    """The shape of a GPT-2 model; raises InputError for a shape that cannot be built."""

    model_types: ClassVar = {
        "gpt2": "GPT2LMHeadModel",
        "gpt2-moe": "GPT2MoEForCausalLM",
        "gpt2-rotary": "GPT2RotaryForCausalLM",
    }

    rope_theta: float | None = option(
        None, **fields.THETA | {"help": "base of rotary positions; none: a table"}, published="rope_theta", absent=True
    )
    vocab_size: int = option(50_257, **fields.VOCABULARY, published="vocab_size")
    context_length: int = option(1_024, **fields.CONTEXT, published="n_positions")  # and rows of the table of positions
    context = copies("context_length", "n_ctx")
    width: int = option(1_024, **fields.WIDTH, published="n_embd")
    num_layers: int = option(24, **fields.LAYERS, published="n_layer")
    num_heads: int = option(16, **fields.HEADS, published="n_head")
    feed_forward: int = option(4_096, **fields.INNER, published="n_inner", absent=lambda values: 4 * values["n_embd"])
    experts: int = option(0, **expert_settings.EXPERTS)
    experts_per_token: int = option(2, **expert_settings.EXPERTS_PER_TOKEN)
    expert_balance: float = option(0.01, **expert_settings.EXPERT_BALANCE)
    mixture = Entries(expert_settings.published, expert_settings.read)
    activation = always(activation_function="gelu_new")
    dropout: float = option(0.0, **fields.DROPOUT)  # on the attention probabilities, too
    dropouts = copies("dropout", "embd_pdrop", "attn_pdrop", "resid_pdrop")
    norm_eps: float = option(1e-5, **fields.EPS, published="layer_norm_epsilon", absent=True)
    init_std: float = option(0.02, **fields.STD, published="initializer_range", absent=True)
    tied_head: bool = option(True, **fields.TIED, published="tie_word_embeddings", absent=True)
    begin_of_text_id: int | None = option(None, **fields.BEGIN_OF_TEXT)
    begin = own_token("bos_token_id", "begin_of_text_id")
    end_of_text_id: int = option(50_256, **fields.END_OF_TEXT, published="eos_token_id")
    attention = needed(scale_attn_weights=True, add_cross_attention=False, scale_attn_by_inverse_layer_idx=False)

    def __post_init__(self) -> None:
        validate(self)
        expert_settings.check(self)
        if self.width % self.num_heads:
            raise InputError(f"width ({self.width}) must be a multiple of num_heads ({self.num_heads})")
        if self.rope_theta is not None and self.head_dim % 2:
            raise InputError(f"width / num_heads must be even with a rope_theta; it is {self.head_dim}")

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits.

        In each layer the inputs of two norms and of two products, queries, keys and values, the output of attention,
        and each feed-forward block that a token passes through before and after the activation function.
        """
        block = expert_settings.activations_per_token(self, 2 * self.feed_forward)
        return self.num_layers * (8 * self.width + block)

    def model_type(self) -> str:
        """Return the type: with rotary positions or experts it is not a GPT-2 to other programs."""
        return "gpt2-rotary" if self.rope_theta is not None else "gpt2-moe" if self.experts else "gpt2"


def _shape(layers: int, width: int, heads: int, **others: Any) -> GPT2Config:
    return GPT2Config(num_layers=layers, width=width, num_heads=heads, feed_forward=4 * width, **others)


def _laptop(layers: int, width: int, heads: int, vocab: int) -> GPT2Config:
    std = laptop_init_std(width)
    return _shape(layers, width, heads, vocab_size=vocab, context_length=256, init_std=std, end_of_text_id=0)


SIZES = {
    "nano": _laptop(6, 90, 3, 4_096),
    "micro": _laptop(8, 200, 5, 4_096),
    "mini": _laptop(16, 256, 8, 8_192),
    "small": _laptop(18, 416, 13, 8_192),
    "124m": _shape(12, 768, 12),
    "300m": GPT2Config(context_length=2_048),
    "medium": GPT2Config(),
    "large": _shape(36, 1_280, 20),
}
