"""The weights of attention are those with which the operation itself mixed the values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minigrad.ops.softmax import softmax_formula
from minigrad.pages.explain.attention import ATTENTIONS, attention_weights
from minigrad.pages.explain.trace import trace


def operations(model, text):
    return trace(model, text, ATTENTIONS).operations


def test_every_layer_has_weights_that_sum_to_one_and_see_nothing_later(model, text):
    found = operations(model, text)
    assert [operation.layer for operation in found] == list(range(model.config.num_layers))
    for operation in found:
        weights = attention_weights(operation)
        assert weights.shape[:2] == operation.arrays[0].shape[:2]
        np.testing.assert_allclose(weights.sum(axis=2), 1, rtol=1e-5)
        assert weights.min() >= 0
        assert not np.triu(weights.swapaxes(0, 1), 1).any()


def test_the_weights_times_the_values_are_what_the_layer_computed(model, text):
    for operation in operations(model, text):
        if operation.name == "attention_with_own_key":
            continue
        weights, values = attention_weights(operation), operation.arrays[2]
        values = values.repeat(weights.shape[1] // values.shape[1], axis=1)
        np.testing.assert_allclose(np.einsum("thu,uhd->thd", weights, values), operation.result, rtol=0, atol=1e-5)


def test_the_weights_of_full_attention_are_the_softmax_of_the_scores(small, text):
    operation = operations(small("vidya-v2"), text)[3]
    q, k, _ = operation.arrays
    scores = np.einsum("thd,uhd->thu", q, k.repeat(q.shape[1] // k.shape[1], axis=1)) / math.sqrt(q.shape[2])
    hidden = np.triu(np.ones((len(text), len(text)), bool), 1)[:, None]
    expected = softmax_formula(np.where(hidden, -np.inf, scores))
    np.testing.assert_allclose(attention_weights(operation), expected, rtol=0, atol=1e-5)


def test_a_pattern_shows_only_the_keys_that_it_lets_a_token_see(small, text):
    model = small("vsla")
    local, pyramid, sparse = (attention_weights(operation) for operation in operations(model, text)[:3])
    last = len(text) - 1
    assert np.flatnonzero(local[last, 0]).tolist() == list(range(last - 7, last + 1))
    assert (np.count_nonzero(sparse, axis=2) <= 5).all()
    far = pyramid[last, 0, :16].reshape(4, 4)  # complete blocks before the window
    np.testing.assert_allclose(far, np.broadcast_to(far[:, :1], far.shape), rtol=1e-6)
    assert (far > 0).all()


@pytest.mark.parametrize("variant", ["avg_causal", "kv_only"])
def test_the_own_key_of_an_incomplete_pair_has_its_own_place(small, text, variant):
    model = small("wiola", atm=variant)
    merged = [operation for operation in operations(model, text) if operation.name == "attention_with_own_key"]
    assert len(merged) == len(model.config.merging_layers)
    for operation in merged:
        weights = attention_weights(operation)
        assert weights.shape[2] < len(text)
        np.testing.assert_allclose(weights.sum(axis=2), 1, rtol=1e-5)
        seen = operation.options["shared"].visible + operation.options["has_own"]
        assert all(not row[:, count:].any() for row, count in zip(weights, seen, strict=True))
