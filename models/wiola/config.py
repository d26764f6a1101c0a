"""The shape of a Wiola model, its published form, and its sizes.

Names, shapes and config are those of the released checkpoint. The published size names are not parameter counts: the
shape called 360m has 318,048,272 parameters. The sizes ending in -exact keep layers, width and heads, and choose the
widths of the streams so that the count rounds to the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from minigrad.errors import InputError
from minigrad.nn import fields
from minigrad.nn.config import Entries, ModelConfig, laptop_init_std, own_token
from minigrad.options import option, shown, validate

CAUSAL = ("first", "avg_causal", "kv_only")
VARIANTS = (*CAUSAL, "paper")
"""The variants of token merging (see `models.wiola.merging`), the causal ones first."""


def _optional(default: Any, help: str, key: str, **rules: Any) -> Any:
    """Declare a field whose key the released file may lack: then it has its default."""
    return option(default, help, published=key, absent=True, **rules)


def _read_enabled(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    enabled = values.get("atm_enabled", True)
    if not isinstance(enabled, bool):
        raise InputError(f"atm_enabled takes true or false, not {shown(enabled)}")
    return {} if enabled else {"atm": "off"}


@dataclass(frozen=True, kw_only=True)  # the order of the fields is that of config.json
class WiolaConfig(ModelConfig):
    """The shape of a Wiola model; raises InputError for a shape that cannot be built.

    config.json has the keys of the released checkpoint, and our own keys for fields that it lacks.
    """

    model_types: ClassVar = {"wiola": "WiolaForCausalLM"}

    vocab_size: int = option(32_000, **fields.VOCABULARY, published="vocab_size")
    width: int = option(1_024, **fields.WIDTH, published="hidden_size")
    num_layers: int = option(16, **fields.LAYERS, published="num_hidden_layers")
    num_heads: int = option(16, **fields.HEADS, published="num_attention_heads")
    num_kv_heads: int = option(4, **fields.KV_HEADS, published="num_key_value_heads")
    context_length: int = option(2_048, **fields.CONTEXT, published="max_position_embeddings")
    dsff_narrow: int = option(
        1_024, **fields.INNER | {"help": "units of the SwiGLU stream"}, published="dsff_narrow_size"
    )
    dsff_wide: int = option(4_096, **fields.INNER | {"help": "units of the GELU stream"}, published="dsff_wide_size")
    srpe_theta: float = option(10_000.0, **fields.THETA, published="srpe_theta", absent=True)
    srpe_spiral_divisor: float = _optional(
        8.0, "the second winding is this many times slower", "srpe_spiral_divisor", above=0, at_most=1e6
    )
    srpe_radial_amplitude: float = _optional(
        0.1, "how far the radius oscillates around 1", "srpe_radial_amplitude", at_least=-1e3, at_most=1e3
    )
    srpe_radial_frequency: float = _optional(
        0.01, "its frequency, relative to the angle", "srpe_radial_frequency", at_least=-1e6, at_most=1e6
    )
    atm_threshold: float = _optional(
        0.92, "neighbours whose cosine exceeds it merge", "atm_threshold", at_least=-1, at_most=1
    )
    gcla_lookback: int = _optional(
        2, "layers below whose summaries are attended to", "gcla_lookback", at_least=1, at_most=10_000
    )
    gcla_gate_init: float = _optional(
        -3.0, "the context starts with a weight of sigmoid(-3) = 0.047", "gcla_gate_init", at_least=-100, at_most=100
    )
    norm_eps: float = option(1e-6, **fields.EPS, published="rms_norm_eps", absent=True)
    init_std: float = option(0.02, **fields.STD, published="initializer_range", absent=True)
    dropout: float = option(0.0, **fields.DROPOUT)  # the paper has none
    tied_head: bool = option(True, **fields.TIED, published="tie_word_embeddings", absent=True)
    atm: str = _optional(
        "first",
        "off, or how the middle third of the layers merges: see models.wiola.merging",
        "atm_variant",
        choices=("off", *VARIANTS),
    )
    atm_at_generation: bool = _optional(False, "merge during generation as well as in training", "atm_at_generation")
    gcla_summary: str = _optional(
        "prefix",
        "prefix: the mean up to each token; paper: the mean over the whole sequence, which leaks",
        "gcla_summary",
        choices=("prefix", "paper"),
    )
    gqa_layout: str = _optional(
        "block",
        "head h uses group h // (H / G), or interleaved: h mod G",
        "gqa_layout",
        choices=("block", "interleaved"),
    )
    enabled = Entries(lambda config: {"atm_enabled": config.atm != "off", "use_cache": True}, _read_enabled)
    begin_of_text_id: int | None = option(1, **fields.BEGIN_OF_TEXT)
    begin = own_token("bos_token_id", "begin_of_text_id")
    end_of_text_id: int = option(2, **fields.END_OF_TEXT, published="eos_token_id")
    # The reference sets the row of this token to zero; here it is drawn like the others, because no padding is read.
    padding_id: int | None = option(0, "the token of padding; none: that between documents", at_least=0)
    padding = own_token("pad_token_id", "padding_id")

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
    def merging_layers(self) -> list[int]:
        """The middle third of the layers, or none; the first layers encode single tokens, the last need every token."""
        return [] if self.atm == "off" else list(range(self.num_layers // 3, 2 * self.num_layers // 3))

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits.

        In each layer the inputs of norms and products, rotated queries and keys, values, the outputs of both attentions
        and their blend, the summaries with their keys and values, both gates, and both streams, apart and joined.
        """
        keys = self.num_kv_heads * self.head_dim
        attention = 8 * self.width + 2 * keys + self.gcla_lookback * (2 * keys + self.width)
        return self.num_layers * (attention + 2 * self.dsff_narrow + 2 * self.dsff_wide + 7 * self.width)

    @classmethod
    def recognises(cls, values: Mapping[str, Any]) -> bool:
        """Return whether a config.json describes a model of this family; another design has the same model_type."""
        return values.get("model_type") == "wiola" and "srpe_theta" in values and "dsff_wide_size" in values


def _size(layers: int, width: int, heads: int, kv_heads: int, narrow: int, wide: int, **others: Any) -> WiolaConfig:
    streams, groups = {"dsff_narrow": narrow, "dsff_wide": wide}, {"num_heads": heads, "num_kv_heads": kv_heads}
    return WiolaConfig(num_layers=layers, width=width, **(groups | streams | others))


def _laptop(layers: int, width: int, *shape: int, vocab: int) -> WiolaConfig:
    own: dict[str, Any] = {"end_of_text_id": 0, "begin_of_text_id": None, "padding_id": None}  # of tokenizer.train
    return _size(layers, width, *shape, vocab_size=vocab, init_std=laptop_init_std(width), **own)


SIZES = {
    "nano": _laptop(6, 80, 4, 1, 80, 320, vocab=4_096),
    "micro": _laptop(10, 160, 5, 1, 120, 624, vocab=4_096),
    "mini": _laptop(12, 256, 8, 2, 192, 1_008, vocab=8_192),
    "small": _laptop(16, 384, 6, 2, 288, 1_424, vocab=8_192),
    "120m": _size(12, 768, 12, 4, 768, 3_072),
    "360m": _size(16, 1_024, 16, 4, 1_024, 4_096),
    "700m": _size(24, 1_536, 16, 8, 1_536, 6_144),
    "1.5b": _size(28, 2_048, 16, 8, 2_048, 8_192),
    "120m-exact": _size(12, 768, 12, 4, 384, 2_176),
    "360m-exact": _size(16, 1_024, 16, 4, 512, 6_144),
    "700m-exact": _size(24, 1_536, 16, 8, 512, 2_688),
    "1.5b-exact": _size(28, 2_048, 16, 8, 512, 4_608),
}
