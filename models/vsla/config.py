"""The shapes of the VSLA models, and their config.json."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from minigrad.errors import InputError
from minigrad.formats.huggingface import read_fields, require_variant
from minigrad.nn.config import (
    MOST_CONTEXT,
    MOST_HEADS,
    MOST_LAYERS,
    MOST_VOCABULARY,
    MOST_WIDTH,
    laptop_init_std,
)
from minigrad.options import option, unknown, validate
from models.vsla.learned_pattern import CANDIDATES, LearnedPattern
from models.vsla.patterns import LEARNED, PATTERNS, WITH_FAR_KEYS, AttentionPattern

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
