"""VSLA: a GPT-2 whose layers attend in different patterns, on sequences of any lengths without padding.

The variable-shape transformer ("VSLA 1B Parameter Transformer Architecture Analysis", 2025) was a plan that its library
could not run. Its shape is that of GPT-2: learned positions, layer norms with biases, GELU. What it adds is a pattern
of attention for each layer: full, local, sparse, pyramid or adaptive (`minigrad.nn.patterns`); the document names them,
the definitions here are causal. Learned ones are among its plans (`minigrad.nn.learned_pattern`). Names and shapes of
the weights are GPT-2's: with "full" in every layer it computes what GPT-2 computes with the same weights.

The document counts about 1.1 billion parameters. The shape that it describes has 1,319,917,568, with biases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from minigrad import nn
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.formats.huggingface import read_fields, require_variant
from minigrad.nn import Layout
from minigrad.nn.config import (
    MOST_CONTEXT,
    MOST_HEADS,
    MOST_LAYERS,
    MOST_VOCABULARY,
    MOST_WIDTH,
    laptop_init_std,
    residual_std,
)
from minigrad.nn.layered_model import LayeredModel
from minigrad.nn.learned_pattern import CANDIDATES, LearnedPattern
from minigrad.nn.patterns import LEARNED, PATTERNS, WITH_FAR_KEYS, AttentionPattern, PatternCache
from minigrad.nn.programs import Program, Register
from minigrad.options import option, unknown, validate

KINDS = (*PATTERNS, LEARNED)


@dataclass(frozen=True)
class VSLAConfig:
    """The shape of a VSLA model; raises InputError for a shape that cannot be built."""

    vocab_size: int = option(50_257, "tokens in the vocabulary", at_least=1, at_most=MOST_VOCABULARY)
    num_layers: int = option(24, "layers between the embedding and the last norm", at_least=1, at_most=MOST_LAYERS)
    width: int = option(2_048, "elements per token in the residual stream", at_least=1, at_most=MOST_WIDTH)
    num_heads: int = option(16, "heads, which share the width", at_least=1, at_most=MOST_HEADS)
    feed_forward: int = option(8_192, "four times the width", at_least=1, at_most=MOST_WIDTH)
    context_length: int = option(
        4_096, "tokens that a sequence may have, and rows of the table of positions", at_least=1, at_most=MOST_CONTEXT
    )
    patterns: str = option(
        "local+pyramid+sparse+adaptive+full",
        f"the patterns of attention of the layers, in turn and repeated: {', '.join(KINDS)}, joined by +",
    )
    window: int = option(256, "near keys of local, pyramid and adaptive", at_least=1, at_most=MOST_CONTEXT)
    block: int = option(32, "keys whose mean is a far key of pyramid and adaptive", at_least=1, at_most=MOST_CONTEXT)
    top_k: int = option(64, "keys that sparse chooses", at_least=1, at_most=MOST_CONTEXT)
    entropy: float = option(
        0.5, "adaptive sees far keys above this share of the largest entropy of the near ones", at_least=0, at_most=1
    )
    norm_eps: float = option(1e-5, "added to the variance before the root", at_least=0, at_most=1)
    init_std: float = option(0.02, "initial standard deviation of matrices; see residual_std", at_least=0)
    dropout: float = option(0.0, "on the embedding and on the output of each block", at_least=0, below=1)
    tied_head: bool = option(True, "whether the embedding is the head as well")
    end_of_text_id: int = option(50_256, "the token between documents", at_least=0)

    def __post_init__(self) -> None:
        validate(self)
        if self.width % self.num_heads:
            raise InputError(f"width ({self.width}) must be a multiple of num_heads ({self.num_heads})")
        names = self.patterns.split("+")
        for name in names:
            if name not in KINDS:
                raise unknown("attention pattern", name, KINDS)
        if len(names) > self.num_layers:
            raise InputError(f"patterns names {len(names)} layers ({self.patterns}), but there are {self.num_layers}")

    @property
    def num_kv_heads(self) -> int:
        """The number of key/value heads: every head has its own keys and values."""
        return self.num_heads

    @property
    def head_dim(self) -> int:
        """The number of elements of a head."""
        return self.width // self.num_heads

    def kinds(self) -> list[str]:
        """Return the name of the pattern of each layer."""
        names = self.patterns.split("+")
        return [names[layer % len(names)] for layer in range(self.num_layers)]

    def pattern(self, layer: int) -> AttentionPattern | LearnedPattern:
        """Make the pattern of a layer."""
        kind, sizes = self.kinds()[layer], (self.window, self.block, self.top_k)
        fixed = AttentionPattern(kind, *sizes, self.entropy)
        return LearnedPattern(self.num_heads, *sizes) if kind == LEARNED else fixed

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits.

        In each layer the inputs of two norms and of two products, queries, keys and values, the output of attention,
        and the feed-forward block before and after the activation function. Patterns with far keys store the queries
        that see them; sparse attention stores the number and the probability of each chosen key. A learned pattern
        stores what all of its candidates do, and the result of each and of each sum.
        """
        kinds = self.kinds()
        chosen = 2 * self.num_heads * min(self.top_k, self.context_length)
        more = sum(kind in WITH_FAR_KEYS for kind in kinds) * self.width
        more += sum(kind in ("sparse", LEARNED) for kind in kinds) * chosen
        more += kinds.count(LEARNED) * 2 * len(CANDIDATES) * self.width
        return self.num_layers * (9 * self.width + 2 * self.feed_forward) + more

    def published(self) -> dict[str, Any]:
        """Return the config in a published format: that of GPT-2, with the patterns."""
        return {
            "architectures": ["VSLAForCausalLM"],
            "model_type": "vsla",
            "vocab_size": self.vocab_size,
            "n_positions": self.context_length,
            "n_embd": self.width,
            "n_layer": self.num_layers,
            "n_head": self.num_heads,
            "n_inner": self.feed_forward,
            "attention_patterns": self.patterns.split("+"),
            "attention_window": self.window,
            "attention_block": self.block,
            "attention_top_k": self.top_k,
            "attention_entropy": self.entropy,
            "activation_function": "gelu_new",
            "embd_pdrop": self.dropout,
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
        return bool(values.get("model_type") == "vsla")

    @classmethod
    def from_published(cls, values: dict[str, Any]) -> VSLAConfig:
        """Read a config.json; raises InputError for a variant that this family does not have."""
        require_variant(values, {"activation_function": "gelu_new"})
        patterns = values.get("attention_patterns")
        if isinstance(patterns, list) and all(isinstance(name, str) for name in patterns):
            values = values | {"attention_patterns": "+".join(patterns)}
        return cls(**read_fields(cls, values, _KEYS))


_KEYS = {
    "vocab_size": "vocab_size",
    "n_positions": "context_length",
    "n_embd": "width",
    "n_layer": "num_layers",
    "n_head": "num_heads",
    "n_inner": "feed_forward",
    "attention_patterns": "patterns",
    "attention_window": "window",
    "attention_block": "block",
    "attention_top_k": "top_k",
    "attention_entropy": "entropy",
    "layer_norm_epsilon": "norm_eps",
    "initializer_range": "init_std",
    "tie_word_embeddings": "tied_head",
    "eos_token_id": "end_of_text_id",
}


def _laptop(layers: int, width: int, heads: int, vocab: int) -> VSLAConfig:
    shape = VSLAConfig(vocab, layers, width, heads, 4 * width, 256, end_of_text_id=0)
    return replace(shape, window=64, block=8, top_k=32, init_std=laptop_init_std(width))


SIZES = {
    "nano": _laptop(6, 90, 3, 4_096),
    "micro": _laptop(8, 200, 5, 4_096),
    "mini": _laptop(16, 256, 8, 8_192),
    "small": _laptop(18, 416, 13, 8_192),
    "1b": VSLAConfig(),
}


class Attention(nn.Module):
    """Causal multi-head self-attention in the pattern of its layer; one product computes queries, keys and values."""

    def __init__(self, config: VSLAConfig, layer: int) -> None:
        self.num_heads = config.num_heads
        self.pattern: AttentionPattern | LearnedPattern = config.pattern(layer)
        self.c_attn = nn.Conv1D(config.width, 3 * config.width, std=config.init_std)
        self.c_proj = nn.Conv1D(config.width, config.width, std=residual_std(config))
        self.resid_dropout = nn.Dropout(config.dropout)

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


class VSLA(LayeredModel):
    """The VSLA language model; `model(tokens)` gives logits, `model.loss(tokens, targets)` the loss."""

    learns_positions = True

    def __init__(self, config: VSLAConfig) -> None:
        self.config: VSLAConfig = config
        self.wte = nn.Embedding(config.vocab_size, config.width, std=config.init_std)
        self.wpe = nn.Embedding(config.context_length, config.width, std=config.init_std)
        self.drop = nn.Dropout(config.dropout)
        self.h = [Block(config, layer) for layer in range(config.num_layers)]
        self.ln_f = nn.LayerNorm(config.width, eps=config.norm_eps)
        head = None if config.tied_head else nn.Linear(config.width, config.vocab_size, bias=False, std=config.init_std)
        self.lm_head = head

    def embedding(self) -> nn.Embedding:
        """Return the embedding module."""
        return self.wte

    def enter(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Return what the first layer gets: tokens (rows,) -> (rows, width)."""
        return self.drop(self.wte(tokens) + self.wpe(Tensor(layout.positions)))

    def pass_layer(self, index: int, x: Tensor, layout: Layout, cache: PatternCache | None = None) -> Tensor:
        """Pass rows (rows, width) through the layer of this number."""
        return self.h[index](x, layout, cache, index)

    def leave(self, x: Tensor) -> Tensor:
        """Return what the head gets of what the last layer returned (rows, width)."""
        return self.ln_f(x)

    def write_program(self, program: Program) -> Register | None:
        """Describe the pass over one token, as `hidden` computes it; None with a learned pattern."""
        x = program.embed(self.wte)
        program.add_position(x, self.wpe)
        for index, layer in enumerate(self.h):
            with program.temporary():
                qkv = program.linear(layer.attn.c_attn, program.norm(layer.ln_1, x))
                q, k, v = (qkv.part(part * x.size, (part + 1) * x.size) for part in range(3))
                if (pattern := layer.attn.pattern.in_program()) is None:
                    return None
                attended = program.attend(index, q, k, v, pattern)
                program.linear(layer.attn.c_proj, attended, add_to=x)
            with program.temporary():
                layer.mlp.write_program(program, program.norm(layer.ln_2, x), x)
        return program.norm(self.ln_f, x)

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> PatternCache:
        """Return an empty cache for `batch_size` sequences of up to `max_length` tokens (by default the context)."""
        config, length = self.config, self.config.context_length if max_length is None else max_length
        patterns = [block.attn.pattern for block in self.h]
        return PatternCache(patterns, batch_size, length, config.num_heads, config.head_dim, self.head().dtype)

    def macs_per_token(self, context: float) -> float:
        """Return the multiply-adds of one forward pass per token; attention counts the keys that its pattern shows."""
        keys = sum(block.attn.pattern.keys_per_token(context) for block in self.h)
        full = self.config.num_layers * context / 2
        return super().macs_per_token(context) + 2 * self.config.width * (keys - full)

    def measurements(self) -> dict[str, list[float]]:
        """Return the share of tokens that saw far keys in the last step, for each adaptive layer.

        And the mean shares of the candidates, one learned layer after the other.
        """
        patterns = [block.attn.pattern for block in self.h]
        far = [pattern.far_share for pattern in patterns if pattern.kind == "adaptive"]
        learned = [each.shares().data.mean(axis=0) for each in patterns if isinstance(each, LearnedPattern)]
        shares = [float(share) for layer in learned for share in layer]
        return ({"far_share": far} if far else {}) | ({"pattern_share": shares} if shares else {})
