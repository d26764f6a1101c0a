"""Wiola with some of its parts, for the study of them: each part can be left out, or be the only one.

A part that is left out has its usual counterpart: rotary positions, one SwiGLU block with as many parameters as both
streams, RMSNorm. Without all parts the model is a Llama with the shape of Wiola.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from benchmarks.evaluation.studies.changes import EmbeddingMix, SquaredReLU, ValueResidual
from minigrad import nn, ops
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.options import unknown
from models.wiola import Wiola, WiolaConfig
from models.wiola.attention import GatedCrossLayerAttention, Pass, with_context

PARTS = ("spiral", "context", "gate", "merging", "streams", "offset")
CONTROLS = {
    "gelu": "streams",
    "squared relu": "streams",
    "1.125 p": "spiral",
    "biases": "",
    "values": "",
    "embedding": "",
}
"""The controls, each with the part beside which it has no effect."""


class Parts(Wiola):
    """Wiola with the `parts` named.

    `controls` may name "gelu" or "squared relu", a block that replaces the SwiGLU (without "streams"); "biases" of
    queries and keys; "values", a learned share of the first layer's values in all others; "embedding", a learned share
    of the embedding in the input of every later layer; "1.125 p", rotary positions multiplied by 1.125, so that they
    turn as fast as the spiral (without "spiral"). Raises InputError for an unknown part
    or control, and for a control without effect.
    """

    parts: Collection[str] = PARTS
    controls: Collection[str] = ()

    def __init__(self, config: WiolaConfig) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise unknown("part", part, PARTS)
        for control in self.controls:
            if control not in CONTROLS or CONTROLS[control] in self.parts:
                raise InputError(f"{control!r} is not a control of a Wiola with the parts {list(self.parts)}")
        super().__init__(config if "merging" in self.parts else replace(config, atm="off"))
        if "spiral" not in self.parts:
            turns = 1.125 if "1.125 p" in self.controls else 1
            self._angles = nn.LinearAngles(config.head_dim, config.srpe_theta, factor=1 / turns)
        values: list[Tensor] = []  # of the first layer in this pass, for the others
        embeddings: list[Tensor] = []  # of this pass, for later layers
        for index, layer in enumerate(self.model.layers):
            if not {"context", "gate"} <= {*self.parts}:
                layer.attn = PartOfAttention(config, "context" in self.parts, "gate" in self.parts)
            if "biases" in self.controls:
                shared = config.num_kv_heads * config.head_dim
                layer.attn.q_proj = nn.Linear(config.width, config.width, std=config.init_std)
                layer.attn.k_proj = nn.Linear(config.width, shared, std=config.init_std)
            if "values" in self.controls:
                layer.attn.v_proj = ValueResidual(layer.attn.v_proj, values, is_first=index == 0)
            if "streams" not in self.parts:
                layer.ffn = one_stream(config, self.controls)
            if "offset" not in self.parts:
                layer.input_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
                layer.post_attn_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        if "offset" not in self.parts:
            self.model.final_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        if "embedding" in self.controls:
            layers: Any = self.model.layers
            self.model.layers = [EmbeddingMix(layer, embeddings, is_first=layer is layers[0]) for layer in layers]


class PartOfAttention(GatedCrossLayerAttention):
    """Wiola's attention without its context or without its gate, or without both."""

    def __init__(self, config: WiolaConfig, has_context: bool, has_gate: bool) -> None:
        heads = config.width, config.num_heads, config.num_kv_heads
        super().__init__(*heads, gate_init=config.gcla_gate_init, interleaved=False, std=config.init_std)
        self.has_context, self.has_gate = has_context, has_gate
        if not has_context:
            del self.k_ctx_proj, self.v_ctx_proj, self.blend_logit
        if not has_gate:
            del self.gate_proj

    def forward(self, x: Tensor, summaries: list[Tensor], run: Pass) -> Tensor:
        """Attend, without the summaries if there is no context."""
        return super().forward(x, summaries if self.has_context else [], run)

    def blend(self, x: Tensor, q: Tensor, attended: Tensor, summaries: list[Tensor]) -> Tensor:
        """Blend with the context, apply the gate and project, as far as these parts are there."""
        if self.has_gate:
            return super().blend(x, q, attended, summaries)
        if summaries:
            context = ops.stack(*summaries, axis=1)  # (rows, L, C)
            k, v = self.heads(self.k_ctx_proj, context), self.heads(self.v_ctx_proj, context)
            attended = with_context(attended, q, k, v, self.blend_logit)
        return self.o_proj(attended.reshape(len(x), self.q_proj.weight.shape[0]))


def one_stream(config: WiolaConfig, controls: Collection[str]) -> nn.Module:
    """Return one feed-forward block with as many parameters as both streams and their fusion."""
    numbers = 3 * config.dsff_narrow + 2 * config.dsff_wide + 2 * config.width
    if "squared relu" in controls:
        return SquaredReLU(config.width, numbers // 2, std=config.init_std, out_std=config.init_std)
    if "gelu" in controls:
        return nn.GELUFeedForward(config.width, numbers // 2, std=config.init_std, out_std=config.init_std)
    return nn.SwiGLUFeedForward(config.width, numbers // 3, std=config.init_std, out_std=config.init_std)
