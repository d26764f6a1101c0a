"""A trace holds the residual stream between the layers, and leaves the model as it was."""

from __future__ import annotations

import numpy as np
import pytest

import models
from minigrad import Tensor, no_grad, ops
from minigrad.nn.checkpointing import CheckpointedLayer
from minigrad.nn.language_model import LanguageModel
from minigrad.pages.explain.trace import trace

TOKENS = [5, 250, 7, 7, 31]
SHAPES = {"vidya-v1": {}, "vidya-v2": {}, "gpt2": {}, "vsla": {}, "wiola": {"atm_at_generation": True}}


def tiny(family: str, **changes: object) -> LanguageModel:
    return models.build(family, "nano", vocab_size=300, context_length=64, **SHAPES[family] | changes)


@pytest.mark.parametrize("family", SHAPES)
def test_the_norm_after_the_last_layer_gives_the_logits(family):
    model = tiny(family)
    found = trace(model, TOKENS)
    assert len(found.stream) == model.config.num_layers + 1
    rows = Tensor(found.stream[-1])
    with no_grad():
        for module in found.after:
            rows = module(rows)
        np.testing.assert_array_equal(ops.linear(rows, model.head()).data, model.eval()([TOKENS]).data[0])


@pytest.mark.parametrize("family", SHAPES)
def test_each_output_is_the_input_of_the_next_layer(family):
    model = tiny(family)
    given: list[np.ndarray] = []
    layers = [module for _, module in model.named_modules() if isinstance(module, CheckpointedLayer)]
    for layer in layers:
        forward = layer.forward
        layer.forward = lambda x, *rest, forward=forward: (given.append(x.data), forward(x, *rest))[1]
    for ours, theirs in zip(trace(model, TOKENS).stream, given, strict=False):
        np.testing.assert_array_equal(ours, theirs)
    assert len(given) == len(layers)


def test_operations_of_the_names_are_kept_with_layer_module_and_result():
    model = tiny("vidya-v2")
    found = trace(model, TOKENS, ["attention", "linear"])
    attention = [each for each in found.operations if each.name == "attention"]
    assert [each.layer for each in attention] == list(range(model.config.num_layers))
    assert [each.module for each in attention] == [layer.self_attn for layer in model.model.layers]
    q, k, v = attention[2].arrays
    with no_grad():
        again = ops.attention(q, k, v, **attention[2].options)
    np.testing.assert_array_equal(again.data, attention[2].result)
    assert [each.name for each in found.operations].count("linear") > 4 * model.config.num_layers
    assert trace(model, TOKENS).operations == []


def test_dropout_is_off_and_the_mode_is_restored():
    model = tiny("vidya-v2", dropout=0.5)
    for training in (True, False):
        model.train(training)
        first, second = (trace(model, TOKENS).stream[-1] for _ in range(2))
        np.testing.assert_array_equal(first, second)
        assert model.training is training
