"""The shape of a Wiola model, its published form, and its sizes.

Names, shapes and config are those of the released checkpoint. The published size names are not parameter counts: the
shape called 360m has 318,048,272 parameters. The sizes ending in -exact keep layers, width and heads, and choose the
widths of the streams so that the count rounds to the name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from minigrad.errors import InputError
from minigrad.formats.huggingface import read_fields
from minigrad.nn.config import MOST_CONTEXT, MOST_HEADS, MOST_LAYERS, MOST_VOCABULARY, MOST_WIDTH, laptop_init_std
from minigrad.options import option, shown, validate

CAUSAL = ("first", "avg_causal", "kv_only")
VARIANTS = (*CAUSAL, "paper")
"""The variants of token merging (see `models.wiola.merging`), the causal ones first."""


@dataclass(frozen=True)
class WiolaConfig:
    """The shape of a Wiola model; raises InputError for a shape that cannot be built."""

    vocab_size: int = option(32_000, "tokens in the vocabulary", at_least=1, at_most=MOST_VOCABULARY)
    num_layers: int = option(16, "layers between the embedding and the last norm", at_least=1, at_most=MOST_LAYERS)
    width: int = option(1_024, "elements per token in the residual stream", at_least=1, at_most=MOST_WIDTH)
    num_heads: int = option(16, "query heads, which share the width", at_least=1, at_most=MOST_HEADS)
    num_kv_heads: int = option(
        4, "key/value heads, each shared by num_heads / num_kv_heads query heads", at_least=1, at_most=MOST_HEADS
    )
    dsff_narrow: int = option(1_024, "width of the SwiGLU stream", at_least=1, at_most=MOST_WIDTH)
    dsff_wide: int = option(4_096, "width of the GELU stream", at_least=1, at_most=MOST_WIDTH)
    context_length: int = option(2_048, "tokens that a sequence may have", at_least=1, at_most=MOST_CONTEXT)
    srpe_theta: float = option(10_000.0, "base of the rotary frequencies", above=1, at_most=1e15)
    srpe_spiral_divisor: float = option(8.0, "the second winding is this many times slower", above=0, at_most=1e6)
    srpe_radial_amplitude: float = option(0.1, "how far the radius oscillates around 1", at_least=-1e3, at_most=1e3)
    srpe_radial_frequency: float = option(
        0.01, "the frequency of this oscillation, relative to the angle", at_least=-1e6, at_most=1e6
    )
    gcla_lookback: int = option(2, "layers below whose summaries are attended to", at_least=1, at_most=MOST_LAYERS)
    gcla_gate_init: float = option(
        -3.0, "the context starts with a weight of sigmoid(-3) = 0.047", at_least=-100, at_most=100
    )
    gcla_summary: str = option(
        "prefix", "or paper, the mean over the whole sequence, which leaks", choices=("prefix", "paper")
    )
    gqa_layout: str = option(
        "block", "head h uses group h // (H / G), or interleaved: h mod G", choices=("block", "interleaved")
    )
    atm: str = option(
        "first",
        "off, or how the middle third of the layers merges: see models.wiola.merging",
        choices=("off", *VARIANTS),
    )
    atm_threshold: float = option(0.92, "neighbours whose cosine exceeds it merge", at_least=-1, at_most=1)
    atm_at_generation: bool = option(False, "merge during generation as well as in training")
    norm_eps: float = option(1e-6, "added to the mean square before the root", at_least=0, at_most=1)
    init_std: float = option(0.02, "initial standard deviation of matrices", at_least=0)
    dropout: float = option(
        0.0, "on the embedding and on the output of each block; the paper has none", at_least=0, below=1
    )
    tied_head: bool = option(True, "whether the embedding is the head as well")
    end_of_text_id: int = option(2, "the token between documents", at_least=0)
    begin_of_text_id: int | None = option(1, "the token that begins a text; none: that between documents", at_least=0)
    padding_id: int | None = option(0, "the token of padding; none: that between documents", at_least=0)

    def __post_init__(self) -> None:
        validate(self)
        for name, multiple in (("width", "num_heads"), ("num_heads", "num_kv_heads")):
            if getattr(self, name) % getattr(self, multiple):
                raise InputError(
                    f"{name} ({getattr(self, name)}) must be a multiple of {multiple} ({getattr(self, multiple)})"
                )
        if self.head_dim % 2:
            raise InputError(f"width / num_heads must be even, because positions rotate pairs; it is {self.head_dim}")
        if self.atm_at_generation and self.atm not in CAUSAL:
            raise InputError(f"atm_at_generation needs atm to be one of {', '.join(CAUSAL)}, not {self.atm!r}")

    @property
    def head_dim(self) -> int:
        """The number of elements of a head."""
        return self.width // self.num_heads

    @property
    def merging_layers(self) -> list[int]:
        """The middle third of the layers, or none; the first layers encode single tokens, the last need every token."""
        return [] if self.atm == "off" else list(range(self.num_layers // 3, 2 * self.num_layers // 3))

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits.

        In each layer the inputs of norms and products, queries, keys and values before and after rotation, the outputs
        of both attentions, the summaries with their keys and values, the gate, both streams and their fusion.
        """
        keys = self.num_kv_heads * self.head_dim
        attention = 10 * self.width + 3 * keys + self.gcla_lookback * (2 * keys + self.width)
        return self.num_layers * (attention + 2 * self.dsff_narrow + 2 * self.dsff_wide + 6 * self.width)

    def published(self) -> dict[str, Any]:
        """Return the config with the keys of the released checkpoint, and our own keys for fields that it lacks."""
        return {
            "architectures": ["WiolaForCausalLM"],
            "model_type": "wiola",
            **{theirs: getattr(self, ours) for theirs, ours in _KEYS.items()},
            "atm_enabled": self.atm != "off",
            "use_cache": True,
            "bos_token_id": self.end_of_text_id if self.begin_of_text_id is None else self.begin_of_text_id,
            "eos_token_id": self.end_of_text_id,
            "pad_token_id": self.end_of_text_id if self.padding_id is None else self.padding_id,
        }

    @classmethod
    def recognises(cls, values: dict[str, Any]) -> bool:
        """Return whether a config.json describes a model of this family; another design has the same model_type."""
        return values.get("model_type") == "wiola" and "srpe_theta" in values and "dsff_wide_size" in values

    @classmethod
    def from_published(cls, values: dict[str, Any]) -> WiolaConfig:
        """Read a config.json; a key that the released file lacks gets the default."""
        needed = ("vocab_size", "num_layers", "width", "num_heads", "num_kv_heads", "dsff_narrow", "context_length")
        keys = {theirs: ours for theirs, ours in _KEYS.items() if theirs in values or ours in needed}
        fields = read_fields(cls, values, keys | {"eos_token_id": "end_of_text_id"})
        own = {theirs: ours for theirs, ours in _OWN_TOKENS.items() if values.get(theirs) != values["eos_token_id"]}
        fields |= dict.fromkeys(_OWN_TOKENS.values()) | read_fields(cls, values, own, dict.fromkeys(own))
        enabled = values.get("atm_enabled", True)
        if not isinstance(enabled, bool):
            raise InputError(f"atm_enabled takes true or false, not {shown(enabled)}")
        return cls(**fields | ({} if enabled else {"atm": "off"}))


_OWN_TOKENS = {"bos_token_id": "begin_of_text_id", "pad_token_id": "padding_id"}
"""Tokens that have an id of their own, or that of the token between documents."""

_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "width",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "max_position_embeddings": "context_length",
    "dsff_narrow_size": "dsff_narrow",
    "dsff_wide_size": "dsff_wide",
    "srpe_theta": "srpe_theta",
    "srpe_spiral_divisor": "srpe_spiral_divisor",
    "srpe_radial_amplitude": "srpe_radial_amplitude",
    "srpe_radial_frequency": "srpe_radial_frequency",
    "atm_threshold": "atm_threshold",
    "gcla_lookback": "gcla_lookback",
    "gcla_gate_init": "gcla_gate_init",
    "rms_norm_eps": "norm_eps",
    "initializer_range": "init_std",
    "tie_word_embeddings": "tied_head",
    "atm_variant": "atm",
    "atm_at_generation": "atm_at_generation",
    "gcla_summary": "gcla_summary",
    "gqa_layout": "gqa_layout",
}


def _size(layers: int, width: int, heads: int, kv_heads: int, narrow: int, wide: int) -> WiolaConfig:
    return WiolaConfig(32_000, layers, width, heads, kv_heads, narrow, wide)


def _laptop(layers: int, width: int, heads: int, kv_heads: int, narrow: int, wide: int, vocab: int) -> WiolaConfig:
    own = WiolaConfig(vocab, layers, width, heads, kv_heads, narrow, wide, init_std=laptop_init_std(width))
    return replace(own, end_of_text_id=0, begin_of_text_id=None, padding_id=None)  # those of tokenizer.train


SIZES = {
    "nano": _laptop(6, 80, 4, 1, 80, 320, 4_096),
    "micro": _laptop(10, 160, 5, 1, 120, 624, 4_096),
    "mini": _laptop(12, 256, 8, 2, 192, 1_008, 8_192),
    "small": _laptop(16, 384, 6, 2, 288, 1_424, 8_192),
    "120m": _size(12, 768, 12, 4, 768, 3_072),
    "360m": _size(16, 1_024, 16, 4, 1_024, 4_096),
    "700m": _size(24, 1_536, 16, 8, 1_536, 6_144),
    "1.5b": _size(28, 2_048, 16, 8, 2_048, 8_192),
    "120m-exact": _size(12, 768, 12, 4, 384, 2_176),
    "360m-exact": _size(16, 1_024, 16, 4, 512, 6_144),
    "700m-exact": _size(24, 1_536, 16, 8, 512, 2_688),
    "1.5b-exact": _size(28, 2_048, 16, 8, 512, 4_608),
}
