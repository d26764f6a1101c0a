"""Gated cross-layer attention: the order of heads, the blend, and the layers that summaries reach."""

from __future__ import annotations

import numpy as np

from minigrad import Tensor, nn
from models.wiola.attention import GatedCrossLayerAttention, Pass, block_order
from models.wiola.layers import SpiralAngles
from tests.models.wiola.tiny import build, logits, repeated

ANGLES = SpiralAngles(4, 10_000.0, divisor=8.0, amplitude=0.1, frequency=0.01)
LAYOUT = nn.Layout.rectangular(1, 6)


def attention(gate_init: float = 0.0) -> GatedCrossLayerAttention:
    made = GatedCrossLayerAttention(16, 4, 2, gate_init=gate_init, interleaved=False, std=0.4)
    made.initialise(dtype="float64")
    return made


def rows(seed: int) -> Tensor:
    return Tensor(np.random.default_rng(seed).normal(size=(6, 16)))


def test_the_block_order_makes_the_heads_of_a_group_consecutive() -> None:
    assert block_order(6, 2).tolist() == [0, 2, 4, 1, 3, 5]
    assert (block_order(6, 2) % 2).tolist() == [0, 0, 0, 1, 1, 1]  # the paper's groups


def test_the_blend_interpolates_between_self_attention_and_context() -> None:
    alone = attention()(rows(0), [], Pass(LAYOUT, ANGLES)).data
    none, half, whole = (attention(gate)(rows(0), [rows(1)], Pass(LAYOUT, ANGLES)).data for gate in (-50.0, 0.0, 50.0))
    np.testing.assert_allclose(none, alone, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(half, (alone + whole) / 2, rtol=1e-10, atol=1e-12)
    assert np.abs(whole - alone).max() > 0.01


def test_interleaved_heads_are_the_same_model_with_heads_in_another_order() -> None:
    block, interleaved = build(), build(gqa_layout="interleaved")
    order = block_order(4, 2)
    columns = (order[:, None] * 4 + np.arange(4)).reshape(-1)  # heads of size 4
    weights = {}
    for name, array in interleaved.state_dict().items():
        if name.endswith(("q_proj.weight", "gate_proj.weight")):
            array = array[columns]
        elif name.endswith("o_proj.weight"):
            array = array[:, columns]
        weights[name] = array
    block.load_state_dict(weights)
    ids = repeated(4, 12)
    np.testing.assert_allclose(logits(block, ids), logits(interleaved, ids), rtol=0, atol=1e-12)
    block.load_state_dict(interleaved.state_dict())
    assert np.abs(logits(block, ids) - logits(interleaved, ids)).max() > 1e-2


def test_the_first_layer_does_not_use_the_blend_and_the_second_not_its_context_keys() -> None:
    model, ids = build(), repeated(5, 10)
    before = logits(model, ids)
    parameters = dict(model.named_parameters())
    for name, has_an_effect in (
        ("model.layers.0.attn.blend_logit", False),
        ("model.layers.0.attn.k_ctx_proj.weight", False),
        ("model.layers.1.attn.k_ctx_proj.weight", False),
        ("model.layers.1.attn.v_ctx_proj.weight", True),
        ("model.layers.2.attn.k_ctx_proj.weight", True),
    ):
        original = parameters[name].data.copy()
        parameters[name].data = original + 1
        assert (np.abs(logits(model, ids) - before).max() > 1e-9) == has_an_effect, name
        parameters[name].data = original
