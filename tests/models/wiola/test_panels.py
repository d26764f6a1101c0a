"""What Wiola shows of itself: the gates and the merges of the pass that was traced."""

from __future__ import annotations

import numpy as np
import pytest

import models
from minigrad import ops
from minigrad.pages.explain.trace import trace

TOKENS = list(range(30, 60))


def shown(**changes):
    model = models.build("wiola", "nano", vocab_size=300, context_length=64, **changes)
    model.model.layers[3].attn.blend_logit.data[...] = 1.5
    found = trace(model, TOKENS, ["sigmoid_gate", "blend"])
    return model, found, model.panels(found)


def test_the_gates_are_those_of_the_pass():
    _, found, (gates, _) = shown()
    assert list(gates.rows) == [f"layer {n}" for n in range(1, 7)]
    assert gates.rows["layer 1"][0] is None
    assert gates.rows["layer 4"][0] == pytest.approx(1 / (1 + np.exp(-1.5)))
    for operation in found.operations:
        expected = ops.sigmoid(operation.arrays[-1]).data.mean()
        column = 1 if operation.name == "sigmoid_gate" else 2
        assert gates.rows[f"layer {operation.layer + 1}"][column] == pytest.approx(expected)


@pytest.mark.parametrize("variant", ["first", "avg_causal", "kv_only"])
def test_the_merges_are_those_of_the_pass(variant):
    model, _, (_, merges) = shown(atm=variant, atm_at_generation=True, atm_threshold=0.3)
    assert list(merges.layers) == ["Layer 3", "Layer 4"]
    model.train()([TOKENS])
    for number, (joined, cosines) in zip(model.config.merging_layers, merges.layers.values(), strict=True):
        assert joined.mean() == pytest.approx(model.model.layers[number].merge_ratio)
        assert joined.any()
        assert (cosines[joined] > 0.3).all()
    shared = "a key and a value" if variant == "kv_only" else "its attention"
    assert f"A joined pair shares {shared} in these layers: that saves work." in merges.words


def test_a_model_that_merges_in_training_only_says_so():
    _, _, (_, merges) = shown()
    assert "While this model writes it joins none" in merges.words
    assert "a cosine above 0.92" in merges.words


def test_a_model_that_never_merges_has_gates_only():
    _, _, (gates,) = shown(atm="off")
    assert gates.title == "Wiola's gates"
