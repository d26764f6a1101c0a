"""Wiola with some of its parts, for the study of them: each part can be left out, or be the only one.

A part that is left out has its usual counterpart: rotary positions, one SwiGLU block with as many parameters as both
streams, RMSNorm. Without all parts the model is a Llama with the shape of Wiola.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from minigrad import nn, ops
from minigrad.autograd.tensor import Tensor
from models.wiola import Wiola, WiolaConfig
from models.wiola.attention import GatedCrossLayerAttention, Pass, with_context

PARTS = ("spiral", "context", "gate", "merging", "streams", "offset")


class Parts(Wiola):
    """Wiola with the `parts` named.

    `controls` may have "squared relu", that block in the place of the SwiGLU, and "biases", of queries and keys.
    """

    parts: Collection[str] = PARTS
    controls: Collection[str] = ()

    def __init__(self, config: WiolaConfig) -> None:
        super().__init__(config if "merging" in self.parts else replace(config, atm="off"))
        if "spiral" not in self.parts:
            self._angles = nn.RotaryAngles(config.width // config.num_heads, config.srpe_theta)
        for layer in self.model.layers:
            if not {"context", "gate"} <= {*self.parts}:
                layer.attn = PartOfAttention(config, "context" in self.parts, "gate" in self.parts)
            if "biases" in self.controls:
                shared = config.num_kv_heads * config.head_dim
                layer.attn.q_proj = nn.Linear(config.width, config.width, std=config.init_std)
                layer.attn.k_proj = nn.Linear(config.width, shared, std=config.init_std)
            if "streams" not in self.parts:
                layer.ffn = one_stream(config, "squared relu" in self.controls)
            if "offset" not in self.parts:
                layer.input_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
                layer.post_attn_norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        if "offset" not in self.parts:
            self.model.final_norm = nn.RMSNorm(config.width, eps=config.norm_eps)


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


def one_stream(config: WiolaConfig, is_squared: bool) -> nn.Module:
    """Return one feed-forward block with as many parameters as both streams and their fusion."""
    numbers = 3 * config.dsff_narrow + 2 * config.dsff_wide + 2 * config.width
    if is_squared:
        return SquaredReLU(config.width, numbers // 2, std=config.init_std)
    return nn.SwiGLUFeedForward(config.width, numbers // 3, std=config.init_std, out_std=config.init_std)


class SquaredReLU(nn.Module):
    r"""Two matrices with $\max(0, x)^2$ between them (So et al. 2021, "Primer", arXiv 2109.08668)."""

    def __init__(self, width: int, hidden: int, *, std: float) -> None:
        self.up_proj = nn.Linear(width, hidden, bias=False, std=std)
        self.down_proj = nn.Linear(hidden, width, bias=False, std=std)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to every row."""
        positive = ops.relu(self.up_proj(x))
        return self.down_proj(positive * positive)
