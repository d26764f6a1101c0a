"""The Wiola model: its layers, and the summaries that each layer passes to the layers above.

Two of the paper's formulas let a position see later tokens: the summary of a layer (eq. 20) and the average of merged
tokens (eqs. 31 and 32). Here the causal readings are the default; the literal ones are available for study, as
`gcla_summary="paper"` and `atm="paper"`.
"""

from __future__ import annotations

from typing import Any

from minigrad import nn
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn import Layout
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.language_model import LanguageModel
from minigrad.pages.explain.trace import Trace
from models.wiola.attention import GatedCrossLayerAttention, Pass
from models.wiola.cache import WiolaCache
from models.wiola.config import WiolaConfig
from models.wiola.layers import DualStreamFeedForward, SpiralAngles, WiolaRMSNorm
from models.wiola.merged_attention import merged_attention
from models.wiola.merging import rows_at
from models.wiola.operations.prefix_mean import prefix_mean


class Block(nn.CheckpointedLayer):
    """One layer (eqs. 1-6): attention over the sequence and the layers below, then the two feed-forward streams."""

    reads_one_layer = False

    def __init__(self, config: WiolaConfig, merging: bool) -> None:
        self.input_norm = WiolaRMSNorm(config.width, eps=config.norm_eps)
        self.attn = GatedCrossLayerAttention(
            config.width,
            config.num_heads,
            config.num_kv_heads,
            gate_init=config.gcla_gate_init,
            interleaved=config.gqa_layout == "interleaved",
            std=config.init_std,
        )
        self.post_attn_norm = WiolaRMSNorm(config.width, eps=config.norm_eps)
        self.ffn = DualStreamFeedForward(config.width, config.dsff_narrow, config.dsff_wide, std=config.init_std)
        self.attention_dropout, self.ffn_dropout = nn.Dropout(config.dropout), nn.Dropout(config.dropout)
        self.variant = config.atm if merging else "off"
        self.threshold, self.at_generation = config.atm_threshold, config.atm_at_generation
        self.merge_ratio = 0.0  # of the last pass in training mode

    def figures(self) -> dict[str, float | list[float]]:
        """Return the merge ratio of the last training pass, in a layer that merges."""
        return {"merge_ratio": self.merge_ratio} if self.variant != "off" else {}

    def forward(self, x: Tensor, summaries: list[Tensor], run: Pass) -> Tensor:
        """Add the outputs of attention and of the feed-forward streams to the residual stream x (rows, width)."""
        normed = self.input_norm(x)
        # A cache is for generation, even while the module is in training mode: it holds what generation needs.
        merges = self.at_generation or (self.training and run.cache is None)
        if self.variant != "off" and merges:
            attended, ratio = merged_attention(self.attn, normed, summaries, run, self.variant, self.threshold)
            if self.training:  # an evaluation may merge too
                self.merge_ratio = ratio
        else:
            attended = self.attn(normed, summaries, run)
        x = x + self.attention_dropout(attended)
        return x + self.ffn_dropout(self.ffn(self.post_attn_norm(x)))


class WiolaBackbone(nn.Module):
    """Embedding, layers and the last norm: the part of the checkpoint whose names begin with ``model.``"""

    def __init__(self, config: WiolaConfig) -> None:
        self.embed_tokens = nn.Embedding(config.vocab_size, config.width, std=config.init_std)
        self.embedding_dropout = nn.Dropout(config.dropout)
        merging = config.merging_layers
        self.layers = [Block(config, index in merging) for index in range(config.num_layers)]
        self.final_norm = WiolaRMSNorm(config.width, eps=config.norm_eps)


class Wiola(LanguageModel):
    """The Wiola language model; `model(tokens)` gives logits, `model.loss(tokens, targets)` the loss."""

    panel_operations = ("sigmoid_gate", "blend")  # the operations whose gates `panels` shows

    def __init__(self, config: WiolaConfig) -> None:
        self.config: WiolaConfig = config
        self.can_generate = config.gcla_summary != "paper"
        self.model = WiolaBackbone(config)
        self.lm_head = None if config.tied_head else nn.Head(config.width, config.vocab_size, std=config.init_std)
        self._angles = SpiralAngles(
            config.head_dim,
            config.srpe_theta,
            divisor=config.srpe_spiral_divisor,
            amplitude=config.srpe_radial_amplitude,
            frequency=config.srpe_radial_frequency,
        )

    def hidden(self, tokens: Tensor, layout: Layout, cache: WiolaCache | None = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width).

        Each layer attends to the summaries of the `gcla_lookback` layers below it, lowest first; the first layer has
        none.
        """
        x = self.model.embedding_dropout(self.model.embed_tokens(tokens))
        summaries: list[Tensor] = []
        for index, layer in enumerate(self.model.layers):
            run = Pass(layout, self._angles, cache, index)
            x = layer(x, summaries[-self.config.gcla_lookback :], run)
            if index + 1 < self.config.num_layers:
                summaries.append(self._summary(x, layout, cache, index))
        return self.model.final_norm(x)

    def _summary(self, x: Tensor, layout: Layout, cache: WiolaCache | None, layer: int) -> Tensor:
        """Return for each row the mean of a layer's output over its sequence up to that row (eq. 20, made causal)."""
        if cache is not None:
            return cache.means(layer, x, layout.offsets)
        means = prefix_mean(x, offsets=layout.offsets)
        if self.config.gcla_summary == "paper":
            means = rows_at(means, (layout.offsets[1:] - 1).repeat(layout.lengths))
        return means

    def embedding(self) -> nn.Embedding:
        """Return the embedding module."""
        return self.model.embed_tokens

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> KeyValueCache:
        """Return an empty cache for `batch_size` sequences of up to `max_length` tokens (by default the context).

        Raises InputError with the summaries of the paper.
        """
        if not self.can_generate:
            raise InputError('gcla_summary="paper" needs the whole text at once, so it cannot generate; use "prefix"')
        length = self.config.context_length if max_length is None else max_length
        return WiolaCache(self.config, batch_size, length, self.head().dtype).in_format(self.cache_format)

    def macs_per_token(self, context: float) -> float:
        """Return the multiply-adds of one forward pass per token.

        The context matrices, and the attention to a summary, count once for each summary of a layer. Merging is
        ignored; the fraction of tokens that merge is measured during training.
        """
        config = self.config
        context_matrices = 2 * config.width * config.num_kv_heads * config.head_dim
        uses = sum(min(layer, config.gcla_lookback) for layer in range(config.num_layers))
        attention = 2 * config.width * uses
        return super().macs_per_token(context) + context_matrices * (uses - config.num_layers) + attention

    def panels(self, trace: Trace) -> list[Any]:
        """Return the gates of each layer and the merges of a text that the model read."""
        from models.wiola.panels import panels  # needed by a page alone

        return panels(self.config, self.model.layers, trace)
