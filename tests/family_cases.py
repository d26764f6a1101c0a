"""Hypothesis strategies for calls of the layers of every model family, and of the objectives of teaching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad import Tensor, nn
from minigrad.finetuning.objectives import CLIP
from models.gpt2 import GPT2Config
from models.vidya_v1 import VidyaV1Config
from models.vidya_v2 import VidyaV2Config
from models.vsla.config import KINDS, VSLAConfig
from models.wiola.attention import GatedCrossLayerAttention, Pass
from models.wiola.config import CAUSAL, WiolaConfig
from models.wiola.layers import SpiralAngles
from models.wiola.model import Block as WiolaBlock
from tests.layer_cases import FLAGS, dropped, layouts, of, plain_angles, rows
from tests.op_cases import Array, Case, normal, values


def gpt2(draw: DrawFn) -> GPT2Config:
    experts = draw(st.sampled_from([0, 3]))
    dropout = draw(st.sampled_from([0.0, 0.3]))
    return GPT2Config(
        vocab_size=4,
        num_layers=1,
        width=4,
        num_heads=draw(st.sampled_from([1, 2])),
        feed_forward=3,
        context_length=16,
        dropout=dropout,
        experts=experts,
        end_of_text_id=0,
    )


def vidya_v1(draw: DrawFn) -> VidyaV1Config:
    return VidyaV1Config(
        vocab_size=4,
        num_layers=1,
        width=draw(st.sampled_from([2, 3])),
        num_heads=draw(st.integers(1, 2)),
        head_dim=4,
        feed_forward=3,
        context_length=16,
        dropout=0.3,
    )


def vidya_v2(draw: DrawFn) -> VidyaV2Config:
    groups = draw(st.integers(1, 2))
    settings: dict[str, Any] = {"key_shift": draw(FLAGS), "experts": draw(st.sampled_from([0, 3]))}
    return VidyaV2Config(
        vocab_size=4,
        num_layers=1,
        width=3,
        num_heads=groups * draw(st.integers(1, 2)),
        num_kv_heads=groups,
        head_dim=4,
        feed_forward=3,
        context_length=16,
        **settings,
    )


def vsla(draw: DrawFn) -> VSLAConfig:
    sizes = {name: draw(st.integers(1, 3)) for name in ("window", "block", "top_k")}
    pattern, entropy = draw(st.sampled_from(KINDS)), draw(st.sampled_from([0.5, 0.0, 0.9]))
    return VSLAConfig(
        vocab_size=4,
        num_layers=1,
        width=4,
        num_heads=draw(st.sampled_from([1, 2])),
        feed_forward=3,
        context_length=16,
        patterns=pattern,
        **sizes,
        entropy=entropy,
        end_of_text_id=0,
    )


def _part(draw: DrawFn, layer: nn.Module, width: int, **options: Any) -> Case:
    """Draw a call of a block, recomputed or not, or of its attention, with packed rows."""
    layout = draw(layouts())
    if isinstance(layer, nn.CheckpointedLayer):
        layer.recomputed = draw(FLAGS)
    return of(draw, dropped(draw, layer), rows(draw, len(layout.positions), width), layout=layout, **options)


@st.composite
def gpt2_part(draw: DrawFn, make: Callable[[GPT2Config, Any], nn.Module]) -> Case:
    """Draw a part of GPT-2 with learned positions, of which it knows nothing, or with rotary ones."""
    config = gpt2(draw)
    return _part(draw, make(config, plain_angles(draw, config.head_dim) if draw(FLAGS) else None), config.width)


@st.composite
def vidya_block(draw: DrawFn, make: Callable[[Any], nn.Module], config: Callable[[DrawFn], Any]) -> Case:
    settings = config(draw)
    return _part(draw, make(settings), settings.width, angles=plain_angles(draw, settings.head_dim))


@st.composite
def vsla_part(draw: DrawFn, make: Callable[[VSLAConfig, int], nn.Module]) -> Case:
    config = vsla(draw)
    return _part(draw, make(config, 0), config.width)


# Wiola.


def spiral_angles(draw: DrawFn, size: int) -> SpiralAngles:
    amplitude, frequency = draw(st.sampled_from([0.1, 0.9])), draw(st.sampled_from([0.01, 1.0]))
    return SpiralAngles(size, 100.0, divisor=draw(st.floats(1, 9)), amplitude=amplitude, frequency=frequency)


def with_summaries(layer: nn.Module, x: Tensor, *summaries: Tensor, run: Pass) -> Tensor:
    """Call attention, or a block, with as many summaries of layers below as there are."""
    result: Tensor = layer(x, list(summaries), run)
    return result


def _call_of_wiola(draw: DrawFn, layer: nn.Module, x: Array, layout: nn.Layout, size: int) -> Case:
    summaries = [rows(draw, *x.shape) for _ in range(draw(st.integers(0, 2)))]
    return of(draw, layer, x, *summaries, how=with_summaries, run=Pass(layout, spiral_angles(draw, size)))


@st.composite
def cross_layer_attention(draw: DrawFn) -> Case:
    groups, layout = draw(st.integers(1, 2)), draw(layouts())
    heads = groups * draw(st.integers(1, 2))
    order = {"gate_init": 0.0, "interleaved": draw(FLAGS), "std": 0.5}
    layer = GatedCrossLayerAttention(2 * heads, heads, groups, **order)
    return _call_of_wiola(draw, layer, rows(draw, len(layout.positions), 2 * heads), layout, 2)


@st.composite
def wiola_block(draw: DrawFn) -> Case:
    """Draw a block that merges in one of its ways, and rows of which some resemble the row before them."""
    atm = draw(st.sampled_from(["off", *CAUSAL, "paper"]))
    config = WiolaConfig(
        vocab_size=4,
        num_layers=3,
        width=4,
        num_heads=2,
        num_kv_heads=draw(st.integers(1, 2)),
        dsff_narrow=2,
        dsff_wide=3,
        atm=atm,
        atm_threshold=0.99,
        end_of_text_id=0,
    )
    layer, layout = WiolaBlock(config, merging=True), draw(layouts())
    layer.recomputed = draw(FLAGS)
    x = rows(draw, len(layout.positions), config.width)
    # Equal rows have the cosine 1 and all others far less, so that no small step crosses the threshold.
    for row in range(1, len(x)):
        if draw(FLAGS):
            x[row] = x[row - 1]
    return _call_of_wiola(draw, layer, x, layout, config.head_dim)


# Objectives.


def _answers(draw: DrawFn, count: int) -> tuple[Array, Array]:
    """Draw the offsets of answers and the log-probabilities of their tokens."""
    offsets = np.cumsum([0, *(draw(st.integers(1, 4)) for _ in range(count))]).astype(np.int64)
    return offsets, -np.abs(values(draw, normal, (int(offsets[-1]),))[0])


@st.composite
def rewarded(draw: DrawFn, compared: bool = False) -> Case:
    """Draw rewarded answers to one or two questions; `compared` with an older model and a reference."""
    group = draw(st.integers(1, 3))
    offsets, log_probs = _answers(draw, group * draw(st.integers(1, 2)))
    rewards = np.array([draw(st.sampled_from([0.0, 1.0, 0.25])) for _ in offsets[1:]])
    options: dict[str, Any] = {"offsets": offsets, "rewards": rewards, "group": group}
    if compared:
        # Ratios to the older model within the clip and beyond it, but not at its bounds, which are kinks.
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        ratios = 1 + rng.choice([0.0, 0.5 * CLIP, -0.5 * CLIP, 2 * CLIP, -2 * CLIP], len(log_probs))
        reference = log_probs + rng.normal(0, 0.3, len(log_probs))
        options |= {"old": log_probs - np.log(ratios), "reference": reference}
    return Case((log_probs,), options)


@st.composite
def preferred(draw: DrawFn) -> Case:
    """Draw pairs of answers, the chosen one first."""
    offsets, log_probs = _answers(draw, 2 * draw(st.integers(1, 3)))
    reference = log_probs + values(draw, normal, log_probs.shape)[0]
    return Case((log_probs,), {"offsets": offsets, "reference": reference, "chosen": draw(st.sampled_from([0.0, 0.5]))})
