"""Wiola: spiral positions, attention across layers, token merging, two feed-forward streams, a norm with an offset.

"The Wiola architecture for efficient small language models", arXiv 2607.01394. Names, shapes and config are those of
the released checkpoint. The labels are not counts: the published shape called 360m has 318,048,272 parameters; the
sizes ending in -exact keep layers, width and heads, and choose the widths of the streams so that the label is true.

Two of the paper's formulas let a position see later tokens: the summary of a layer (eq. 20) and the average of merged
tokens (eqs. 31 and 32). Here the causal readings are the default; the literal ones stay available for study, as
`gcla_summary="paper"` and `atm="paper"`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minigrad import nn, ops
from minigrad.errors import InputError
from minigrad.language_model import LanguageModel
from minigrad.nn import Layout, WiolaCache
from minigrad.nn.merging import CAUSAL, VARIANTS, rows_at
from minigrad.nn.module import Parameter
from minigrad.tensor import Tensor


@dataclass(frozen=True)
class WiolaConfig:
    """The shape of a Wiola model; raises InputError for a shape that cannot be built."""

    vocab_size: int = 32_000
    num_layers: int = 16
    width: int = 1_024
    num_heads: int = 16
    num_kv_heads: int = 4
    dsff_narrow: int = 1_024  # width of the SwiGLU stream
    dsff_wide: int = 4_096  # width of the GELU stream
    context_length: int = 2_048
    srpe_theta: float = 10_000.0
    srpe_spiral_divisor: float = 8.0  # the second winding is this many times slower
    srpe_radial_amplitude: float = 0.1  # how far the radius swings around 1
    srpe_radial_frequency: float = 0.01
    gcla_lookback: int = 2  # summaries of how many layers below
    gcla_gate_init: float = -3.0  # the context begins with a weight of sigmoid(-3) = 0.047
    gcla_summary: str = "prefix"  # or "paper", the mean over the whole text, which leaks
    gqa_layout: str = "block"  # head h uses group h // (H / G), or "interleaved": h mod G
    atm: str = "first"  # off, or how the middle third of the layers merges: see nn.merging
    atm_threshold: float = 0.92  # neighbours whose cosine exceeds it merge
    atm_at_generation: bool = False  # merge not in training only
    norm_eps: float = 1e-6
    init_std: float = 0.02
    dropout: float = 0.0  # on the embedding and on what each block adds; the paper has none
    tied_head: bool = True
    end_of_text_id: int = 0

    def __post_init__(self) -> None:
        counts = ("vocab_size", "num_layers", "width", "num_heads", "num_kv_heads", "dsff_narrow", "dsff_wide")
        for name in (*counts, "context_length", "gcla_lookback"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name, multiple in (("width", "num_heads"), ("num_heads", "num_kv_heads")):
            if getattr(self, name) % getattr(self, multiple):
                raise InputError(
                    f"{name} ({getattr(self, name)}) must be a multiple of {multiple} ({getattr(self, multiple)})"
                )
        if self.head_dim % 2:
            raise InputError(f"width / num_heads must be even, because positions turn pairs; it is {self.head_dim}")
        for name, least in (("srpe_theta", 1), ("srpe_spiral_divisor", 0)):
            if not getattr(self, name) > least:
                raise InputError(f"{name} must be above {least}, not {getattr(self, name)}")
        if not -1 <= self.atm_threshold <= 1:
            raise InputError(f"atm_threshold is a cosine, so between -1 and 1, not {self.atm_threshold}")
        names = {"atm": ("off", *VARIANTS), "gcla_summary": ("prefix", "paper"), "gqa_layout": ("block", "interleaved")}
        for name, known in names.items():
            if getattr(self, name) not in known:
                raise InputError(f"{name} is one of {', '.join(known)}, not {getattr(self, name)!r}")
        if self.atm_at_generation and self.atm not in CAUSAL:
            raise InputError(f"atm_at_generation needs atm to be one of {', '.join(CAUSAL)}, not {self.atm!r}")

    @property
    def head_dim(self) -> int:
        """The size of a head."""
        return self.width // self.num_heads

    @property
    def merging_layers(self) -> list[int]:
        """The middle third of the layers, or none: the first find the words' form, the last need every token."""
        return [] if self.atm == "off" else list(range(self.num_layers // 3, 2 * self.num_layers // 3))

    def activations_per_token(self) -> int:
        """Return how many numbers per token training keeps for the backward pass, the logits aside.

        In each layer the inputs of norms and products, queries, keys and values before and after turning, the two
        mixtures, the summaries and what is made of them, the gate, both streams and their fusion.
        """
        keys = self.num_kv_heads * self.head_dim
        attention = 10 * self.width + 3 * keys + self.gcla_lookback * (2 * keys + self.width)
        return self.num_layers * (attention + 2 * self.dsff_narrow + 2 * self.dsff_wide + 6 * self.width)

    def published(self) -> dict[str, Any]:
        """Return the config with the keys of the released checkpoint, and ours for what it does not have."""
        return {
            "architectures": ["WiolaForCausalLM"],
            "model_type": "wiola",
            **{theirs: getattr(self, ours) for theirs, ours in _KEYS.items()},
            "atm_enabled": self.atm != "off",
            "use_cache": True,
            **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), self.end_of_text_id),
        }

    @classmethod
    def recognises(cls, values: dict[str, Any]) -> bool:
        """Tell whether a config.json describes a model of this family; another design has the same model_type."""
        return values.get("model_type") == "wiola" and "srpe_theta" in values and "dsff_wide_size" in values

    @classmethod
    def from_published(cls, values: dict[str, Any]) -> WiolaConfig:
        """Read a config.json; what the released file leaves out has the default."""
        known = {ours: values[theirs] for theirs, ours in _KEYS.items() if theirs in values}
        if not values.get("atm_enabled", True):
            known["atm"] = "off"
        needed = ("vocab_size", "num_layers", "width", "num_heads", "num_kv_heads", "dsff_narrow", "context_length")
        missing = [theirs for theirs, ours in _KEYS.items() if ours in needed and ours not in known]
        if missing:
            raise KeyError(", ".join(missing))
        return cls(**known, end_of_text_id=values["eos_token_id"])


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
    init_std = round(0.02 * (576 / width) ** 0.5, 4)  # as Vidya v2's: narrow matrices start larger
    return WiolaConfig(vocab, layers, width, heads, kv_heads, narrow, wide, init_std=init_std)


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


class Block(nn.Layer):
    """One layer (eqs. 1-6): attention over the text and over the layers below, then the two feed-forward streams."""

    def __init__(self, config: WiolaConfig, merging: bool) -> None:
        self.input_norm = nn.WiolaRMSNorm(config.width, eps=config.norm_eps)
        self.attn = nn.GatedCrossLayerAttention(
            config.width,
            config.num_heads,
            config.num_kv_heads,
            gate_start=config.gcla_gate_init,
            interleaved=config.gqa_layout == "interleaved",
            std=config.init_std,
        )
        self.post_attn_norm = nn.WiolaRMSNorm(config.width, eps=config.norm_eps)
        self.ffn = nn.DualStreamFeedForward(config.width, config.dsff_narrow, config.dsff_wide, std=config.init_std)
        self.attention_dropout, self.ffn_dropout = nn.Dropout(config.dropout), nn.Dropout(config.dropout)
        self.variant = config.atm if merging else "off"
        self.threshold, self.at_generation = config.atm_threshold, config.atm_at_generation
        self.merge_ratio = 0.0  # of the last pass that merged

    def forward(
        self,
        x: Tensor,
        summaries: list[Tensor],
        layout: Layout,
        angles: nn.SpiralAngles,
        cache: WiolaCache | None,
        layer: int,
    ) -> Tensor:
        """Add what attention and the feed-forward streams have to say: x (rows, width) -> (rows, width)."""
        normed = self.input_norm(x)
        if self.variant != "off" and (self.training or self.at_generation):
            mixed, self.merge_ratio = self.attn.merged(
                normed, summaries, layout, angles, cache, layer, self.variant, self.threshold
            )
        else:
            mixed = self.attn(normed, summaries, layout, angles, cache, layer)
        x = x + self.attention_dropout(mixed)
        return x + self.ffn_dropout(self.ffn(self.post_attn_norm(x)))


class Decoder(nn.Module):
    """Embedding, layers and the last norm: the part of the checkpoint whose names begin with ``model.``"""

    def __init__(self, config: WiolaConfig) -> None:
        self.embed_tokens = nn.Embedding(config.vocab_size, config.width, std=config.init_std)
        self.embedding_dropout = nn.Dropout(config.dropout)
        merging = config.merging_layers
        self.layers = [Block(config, number in merging) for number in range(config.num_layers)]
        self.final_norm = nn.WiolaRMSNorm(config.width, eps=config.norm_eps)


class Wiola(LanguageModel):
    """The Wiola language model; `model(tokens)` gives logits, `model.loss(tokens, targets)` the loss."""

    def __init__(self, config: WiolaConfig) -> None:
        self.config: WiolaConfig = config
        self.model = Decoder(config)
        self.lm_head = None if config.tied_head else nn.Linear(config.width, config.vocab_size, std=config.init_std)
        self._angles = nn.SpiralAngles(
            config.head_dim,
            config.srpe_theta,
            divisor=config.srpe_spiral_divisor,
            amplitude=config.srpe_radial_amplitude,
            frequency=config.srpe_radial_frequency,
        )

    def hidden(self, tokens: Tensor, layout: Layout, cache: WiolaCache | None = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width).

        Each layer sees the summaries of the `gcla_lookback` layers below it, oldest first: the first layer none.
        """
        x = self.model.embedding_dropout(self.model.embed_tokens(tokens))
        summaries: list[Tensor] = []
        for number, layer in enumerate(self.model.layers):
            x = layer(x, summaries[-self.config.gcla_lookback :], layout, self._angles, cache, number)
            if number + 1 < self.config.num_layers:
                summaries.append(self._summary(x, layout, cache, number))
        return self.model.final_norm(x)

    def _summary(self, x: Tensor, layout: Layout, cache: WiolaCache | None, layer: int) -> Tensor:
        """Return for each row the mean of what a layer put out for its text up to there (eq. 20, made causal)."""
        if cache is not None:
            if self.config.gcla_summary == "paper":
                raise InputError('gcla_summary="paper" sees the whole text at once, so it cannot write; use "prefix"')
            means = ops.prefix_mean(x, offsets=layout.offsets, carried=cache.sums[layer], counts=cache.counts)
            cache.add_to_sums(layer, x)
            return means
        means = ops.prefix_mean(x, offsets=layout.offsets)
        if self.config.gcla_summary == "paper":
            lengths = layout.offsets[1:] - layout.offsets[:-1]
            means = rows_at(means, (layout.offsets[1:] - 1).repeat(lengths))
        return means

    def head(self) -> Parameter:
        """Return the matrix that scores the tokens: the embedding, unless the head is one of its own."""
        return self.model.embed_tokens.weight if self.lm_head is None else self.lm_head.weight

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> WiolaCache:
        """Return an empty cache for `batch_size` texts of up to `max_length` tokens (by default the context)."""
        config = self.config
        length = config.context_length if max_length is None else max_length
        merging = config.merging_layers if config.atm_at_generation else []
        sizes = (config.num_kv_heads, config.head_dim, config.width)
        return WiolaCache(config.num_layers, batch_size, length, *sizes, merging, self.head().dtype)

    def products_per_token(self, context: int) -> float:
        """Return the multiplications with an addition per token; the context matrices work on each summary.

        Every token counts as if it did not merge; the fraction that did is measured while training.
        """
        config = self.config
        context_matrices = 2 * config.width * config.num_kv_heads * config.head_dim
        uses = sum(min(layer, config.gcla_lookback) for layer in range(config.num_layers))
        mixing = 2 * config.width * uses
        return super().products_per_token(context) + context_matrices * (uses - config.num_layers) + mixing

    def measurements(self) -> dict[str, Any]:
        """Return the merge ratio of each merging layer in the last step."""
        layers = self.config.merging_layers
        return {"merge_ratio": [self.model.layers[layer].merge_ratio for layer in layers]} if layers else {}
