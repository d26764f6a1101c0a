"""Vidya v2 with what others have found to help small models, one thing per arm: for the search for better defaults."""

from __future__ import annotations

from typing import Any

from benchmarks.evaluation.studies.changes import EmbeddingMix, NormOfHeads, SquaredReLU, ValueResidual, ValueTable
from minigrad import nn
from minigrad.autograd.tensor import Tensor
from minigrad.nn.config import residual_std
from minigrad.options import unknown
from models.vidya_v2 import VidyaV2, VidyaV2Config
from models.wiola.layers import WiolaRMSNorm

PARTS = ("offset", "qk norm", "value residual", "value table", "embedding mix", "squared relu", "gelu")


class Nano(VidyaV2):
    """Vidya v2 with one or more of the `PARTS`, such as an "offset" before the norms; raises InputError for others."""

    parts: tuple[str, ...] = ()

    def __init__(self, config: VidyaV2Config) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise unknown("part", part, PARTS)
        super().__init__(config)
        values: list[Tensor] = []  # of the first layer in this pass, for the others
        embeddings: list[Tensor] = []  # of this pass, for later layers
        self.tokens: list[Tensor] = []  # of this pass
        for index, layer in enumerate(self.model.layers):
            attention: Any = layer.self_attn
            if "qk norm" in self.parts:
                attention.q_proj = NormOfHeads(attention.q_proj, config.head_dim, config.norm_eps)
                attention.k_proj = NormOfHeads(attention.k_proj, config.head_dim, config.norm_eps)
            if "value residual" in self.parts:
                attention.v_proj = ValueResidual(attention.v_proj, values, is_first=index == 0)
            if "value table" in self.parts and index % 2:
                attention.v_proj = ValueTable(attention.v_proj, config.vocab_size, self.tokens)
            if "offset" in self.parts:
                layer.input_layernorm = WiolaRMSNorm(config.width, eps=config.norm_eps)
                layer.post_attention_layernorm = WiolaRMSNorm(config.width, eps=config.norm_eps)
            hidden, stds = config.feed_forward * 3 // 2, {"std": config.init_std, "out_std": residual_std(config)}
            if "gelu" in self.parts:
                layer.mlp = nn.GELUFeedForward(config.width, hidden, **stds)
            if "squared relu" in self.parts:
                layer.mlp = SquaredReLU(config.width, hidden, **stds)
        if "embedding mix" in self.parts:
            layers: Any = self.model.layers
            self.model.layers = [EmbeddingMix(layer, embeddings, is_first=layer is layers[0]) for layer in layers]
        if "offset" in self.parts:
            norms: Any = self.model
            norms.norm = WiolaRMSNorm(config.width, eps=config.norm_eps)

    def hidden(self, tokens: Tensor, layout: nn.Layout, cache: nn.KeyValueCache | None = None) -> Tensor:
        """Note the tokens, for the tables of values, and run the layers."""
        self.tokens[:] = [tokens]
        return super().hidden(tokens, layout, cache)
