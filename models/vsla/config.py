"""The shapes of the VSLA models, and their config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from minigrad.errors import InputError
from minigrad.formats.huggingface import read_fields
from minigrad.nn import fields
from minigrad.nn.config import Entries, ModelConfig, always, copies, laptop_init_std, own_token
from minigrad.options import option, unknown, validate
from models.vsla.patterns import CANDIDATES, LEARNED, PATTERNS, WITH_FAR_KEYS, AttentionPattern, LearnedPattern

KINDS = (*PATTERNS, LEARNED)
_KEYS: dict[str, Any] = {"at_least": 1, "at_most": 10**9}


def _read_patterns(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    found = values.get("attention_patterns")
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        values = {"attention_patterns": "+".join(found)}
    return read_fields(kind, values, {"attention_patterns": "patterns"})


@dataclass(frozen=True, kw_only=True)  # the order of the fields is that of config.json
class VSLAConfig(ModelConfig):
    """The shape of a VSLA model; raises InputError for a shape that cannot be built.

    config.json has a type of our own, with the keys of GPT-2.
    """

    model_types: ClassVar = {"vsla": "VSLAForCausalLM"}

    vocab_size: int = option(50_257, **fields.VOCABULARY, published="vocab_size")
    context_length: int = option(4_096, **fields.CONTEXT, published="n_positions")  # and rows of the table of positions
    width: int = option(2_048, **fields.WIDTH, published="n_embd")
    num_layers: int = option(24, **fields.LAYERS, published="n_layer")
    num_heads: int = option(16, **fields.HEADS, published="n_head")
    feed_forward: int = option(8_192, **fields.INNER, published="n_inner")
    patterns: str = option(
        "local+pyramid+sparse+adaptive+full",
        f"the patterns of attention of the layers, in turn and repeated: {', '.join(KINDS)}, joined by +",
    )
    attention_patterns = Entries(lambda config: {"attention_patterns": config.patterns.split("+")}, _read_patterns)
    window: int = option(256, "near keys of local, pyramid and adaptive", **_KEYS, published="attention_window")
    block: int = option(
        32, "keys whose mean is a far key of pyramid and adaptive", **_KEYS, published="attention_block"
    )
    top_k: int = option(64, "keys that sparse chooses", **_KEYS, published="attention_top_k")
    entropy: float = option(
        0.5,
        "adaptive sees far keys above this share of the largest entropy of the near ones",
        at_least=0,
        at_most=1,
        published="attention_entropy",
    )
    activation = always(activation_function="gelu_new")
    dropout: float = option(0.0, **fields.DROPOUT)
    dropouts = copies("dropout", "embd_pdrop", "resid_pdrop")
    norm_eps: float = option(1e-5, **fields.EPS, published="layer_norm_epsilon")
    init_std: float = option(0.02, **fields.STD, published="initializer_range")
    tied_head: bool = option(True, **fields.TIED, published="tie_word_embeddings")
    begin_of_text_id: int | None = option(None, **fields.BEGIN_OF_TEXT)
    begin = own_token("bos_token_id", "begin_of_text_id")
    end_of_text_id: int = option(50_256, **fields.END_OF_TEXT, published="eos_token_id")

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

    def kinds(self) -> list[str]:
        """Return the name of the pattern of each layer."""
        names = self.patterns.split("+")
        return [names[layer % len(names)] for layer in range(self.num_layers)]

    def pattern(self, layer: int) -> AttentionPattern | LearnedPattern:
        """Make the pattern of a layer."""
        kind, sizes = self.kinds()[layer], (self.window, self.block, self.top_k)
        if kind == LEARNED:
            return LearnedPattern(self.num_heads, *sizes)
        return AttentionPattern(kind, *sizes, self.entropy)

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits.

        In each layer the inputs of two norms and of two products, queries, keys and values, the output of attention,
        and the feed-forward block before and after the activation function. Patterns with far keys store the queries
        that see them; sparse attention stores the number and the probability of each chosen key. A learned pattern
        stores what all of its candidates do, each with its own copy of queries, keys and values, and their results.
        """
        kinds = self.kinds()
        chosen = 2 * self.num_heads * min(self.top_k, self.context_length)
        more = sum(kind in WITH_FAR_KEYS for kind in kinds) * self.width
        more += sum(kind in ("sparse", LEARNED) for kind in kinds) * chosen
        more += kinds.count(LEARNED) * (4 * len(CANDIDATES) - 3) * self.width
        return self.num_layers * (8 * self.width + 2 * self.feed_forward) + more


def _laptop(layers: int, width: int, heads: int, vocab: int) -> VSLAConfig:
    return VSLAConfig(
        vocab_size=vocab,
        context_length=256,
        width=width,
        num_layers=layers,
        num_heads=heads,
        feed_forward=4 * width,
        window=64,
        block=8,
        top_k=32,
        init_std=laptop_init_std(width),
        end_of_text_id=0,
    )


SIZES = {
    "nano": _laptop(6, 90, 3, 4_096),
    "micro": _laptop(8, 200, 5, 4_096),
    "mini": _laptop(16, 256, 8, 8_192),
    "small": _laptop(18, 416, 13, 8_192),
    "1b": VSLAConfig(),
}
