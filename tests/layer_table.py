"""One table of every layer, of every kind of rotary angles and of every objective of teaching: how each is called.

A layer is an operation of its inputs and of its parameters, so the checks of `tests/op_checks.py` serve it too;
`tests/nn/test_every_layer.py` drives them through the whole table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from minigrad import Tensor, nn
from minigrad.adapters.low_rank import LowRank, LowRankLinear
from minigrad.adapters.token_rows import AdaptedEmbedding, EmbeddingWithRows, TokenRows
from minigrad.distributed import pipeline
from minigrad.experts import Experts
from minigrad.finetuning import objectives
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layers import Function
from minigrad.quantised.layers import QuantisedEmbedding, QuantisedLinear, _Quantised
from models import gpt2, vidya_v1, vidya_v2
from models.vsla import model as vsla
from models.vsla.patterns import LearnedPattern
from models.wiola import model as wiola
from models.wiola.attention import GatedCrossLayerAttention
from models.wiola.layers import DualStreamFeedForward, SpiralAngles, WiolaRMSNorm
from tests import family_cases, layer_cases
from tests.op_cases import Case


@dataclass(frozen=True)
class Row:
    """The calls of a layer, with its inputs and its parameters as arrays, and how they are made."""

    cases: SearchStrategy[Case]
    operation: Callable[..., Tensor] = layer_cases.call


def rotated(kind: Any) -> Row:
    """Make a row for one kind of rotary angles."""
    return Row(layer_cases.rotated(kind), layer_cases.rotate)


TABLE: dict[Callable[..., Any], Row] = {
    nn.Linear: Row(layer_cases.linear(nn.Linear)),
    nn.Conv1D: Row(layer_cases.linear(nn.Conv1D)),
    LowRank: Row(layer_cases.low_rank()),
    LowRankLinear: Row(layer_cases.low_rank_linear()),
    nn.Embedding: Row(layer_cases.embedding()),
    TokenRows: Row(layer_cases.token_rows()),
    AdaptedEmbedding: Row(layer_cases.adapted_embedding()),
    nn.RMSNorm: Row(layer_cases.norm(nn.RMSNorm)),
    nn.LayerNorm: Row(layer_cases.norm(nn.LayerNorm)),
    WiolaRMSNorm: Row(layer_cases.norm(WiolaRMSNorm)),
    Function: Row(layer_cases.function()),
    nn.Sequential: Row(layer_cases.sequential(nn.Sequential)),
    nn.Residual: Row(layer_cases.sequential(nn.Residual)),
    nn.Dropout: Row(layer_cases.dropout()),
    nn.SwiGLUFeedForward: Row(layer_cases.feed_forward(nn.SwiGLUFeedForward)),
    nn.GELUFeedForward: Row(layer_cases.feed_forward(nn.GELUFeedForward)),
    nn.Conv1DFeedForward: Row(layer_cases.feed_forward(nn.Conv1DFeedForward)),
    DualStreamFeedForward: Row(layer_cases.feed_forward(DualStreamFeedForward, hidden=2)),
    Experts: Row(layer_cases.experts()),
    nn.SelfAttention: Row(layer_cases.self_attention()),
    nn.GroupedQueryAttention: Row(layer_cases.grouped_query_attention()),
    GatedCrossLayerAttention: Row(family_cases.cross_layer_attention()),
    LearnedPattern: Row(layer_cases.learned_pattern()),
    gpt2.Attention: Row(family_cases.gpt2_part(lambda config, angles: gpt2.Attention(config, 0.02, angles))),
    gpt2.Block: Row(family_cases.gpt2_part(gpt2.Block)),
    vidya_v1.Block: Row(family_cases.vidya_block(vidya_v1.Block, family_cases.vidya_v1)),
    vidya_v2.Block: Row(family_cases.vidya_block(vidya_v2.Block, family_cases.vidya_v2)),
    vsla.Attention: Row(family_cases.vsla_part(vsla.Attention)),
    vsla.Block: Row(family_cases.vsla_part(vsla.Block)),
    wiola.Block: Row(family_cases.wiola_block()),
    nn.RotaryAngles: rotated(layer_cases.plain_angles),
    nn.LinearAngles: rotated(layer_cases.linear_angles),
    nn.NTKAngles: rotated(layer_cases.ntk_angles),
    nn.YarnAngles: rotated(layer_cases.yarn_angles),
    SpiralAngles: rotated(family_cases.spiral_angles),
    objectives.reinforce: Row(family_cases.rewarded(), objectives.reinforce),
    objectives.best_of_n: Row(family_cases.rewarded(), objectives.best_of_n),
    objectives.grpo: Row(family_cases.rewarded(compared=True), objectives.grpo),
    objectives.dpo: Row(family_cases.preferred(), objectives.dpo),
}

# What only holds layers; `tests/models/test_gradients_and_learning.py` checks whole models.
CONTAINERS = {
    nn.Module,
    nn.Wrapper,
    nn.Head,  # an embedding
    _Quantised,
    QuantisedLinear,  # the table of operations has theirs
    QuantisedEmbedding,
    EmbeddingWithRows,  # likewise
    nn.CheckpointedLayer,
    pipeline._Layer,
    LanguageModel,
    gpt2.GPT2,
    vidya_v1.VidyaV1Backbone,
    vidya_v1.VidyaV1,
    vidya_v2.VidyaV2Backbone,
    vidya_v2.VidyaV2,
    vsla.VSLA,
    wiola.WiolaBackbone,
    wiola.Wiola,
}
