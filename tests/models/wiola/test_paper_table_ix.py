"""The unit tests of the Wiola paper's table IX, written from their descriptions: those of attention and larger parts.

Those of the norm, the positions and the feed-forward streams are in test_layers_norm, _spiral and _feed_forward. None
of the paper's tests checks causality or merges inside a model; test_merged_attention does both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import models
from minigrad import Tensor, nn, no_grad
from minigrad.generation import stream
from models.wiola.attention import Pass
from models.wiola.merging import find_groups
from models.wiola.model import Wiola

TINY: dict[str, Any] = {
    "vocab_size": 256,
    "num_layers": 6,
    "width": 64,
    "num_heads": 8,
    "num_kv_heads": 2,
    "dsff_narrow": 64,
    "dsff_wide": 128,
    "context_length": 128,
    "init_std": 0.02,
}


@pytest.fixture(scope="module")
def model() -> Wiola:
    built = models.build("wiola", **TINY).eval()
    assert isinstance(built, Wiola)
    return built


def rows(seed: int, count: int) -> Tensor:
    return Tensor(np.random.default_rng(seed).normal(size=(count, 64)).astype(np.float32))


def tokens(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, shape)


# Gated cross-layer attention: 3


def test_attention_keeps_the_shape(model: Wiola) -> None:
    attention = model.model.layers[2].attn
    out = attention(rows(0, 20), [rows(1, 20), rows(2, 20)], Pass(nn.Layout.rectangular(2, 10), model._angles))
    assert out.shape == (20, 64)


def test_the_cache_grows_with_the_sequence(model: Wiola) -> None:
    cache = model.new_cache(2, 16)
    for length in (5, 3):
        with no_grad():
            model(tokens(0, 2, length), cache=cache)
    assert cache.lengths.tolist() == [8, 8]
    assert cache.stored(0).tolist() == [8, 8]


def test_the_context_changes_the_output(model: Wiola) -> None:
    attention, layout = model.model.layers[2].attn, nn.Layout.rectangular(1, 10)
    x = rows(0, 10)
    without = attention(x, [], Pass(layout, model._angles)).data
    one, other = (attention(x, [rows(seed, 10)], Pass(layout, model._angles)).data for seed in (1, 2))
    assert np.abs(one - other).max() > 1e-7
    assert np.abs(one - without).max() > 1e-7


# Adaptive token merging: 2


def test_merged_rows_are_restored_to_full_length() -> None:
    x = np.eye(8, dtype=np.float32)[[0, 0, 1, 2, 2, 2, 3]]
    groups = find_groups(x, np.array([0, 7]), 0.92, None)
    assert list(zip(groups.first, groups.last, strict=True)) == [(0, 1), (2, 2), (3, 4), (5, 5), (6, 6)]
    assert groups.group.tolist() == [0, 0, 1, 2, 2, 3, 4]
    assert x[groups.first][groups.group].tobytes() == x.tobytes()
    assert groups.ratio == pytest.approx(2 / 7)


def test_a_single_token_does_not_merge() -> None:
    groups = find_groups(np.ones((1, 8), np.float32), np.array([0, 1]), -1.0, None)
    assert (groups.first.tolist(), groups.ratio) == ([0], 0.0)


# The layer: 2


def test_a_layer_keeps_the_shape(model: Wiola) -> None:
    layer = model.model.layers[0]
    assert layer(rows(0, 12), [], Pass(nn.Layout.rectangular(1, 12), model._angles, None, 0)).shape == (12, 64)


def test_the_middle_third_of_the_layers_merges(model: Wiola) -> None:
    assert [layer.variant != "off" for layer in model.model.layers] == [False, False, True, True, False, False]


# The decoder: 3


def test_the_decoder_keeps_the_shape(model: Wiola) -> None:
    assert model.hidden(Tensor(tokens(0, 20)), nn.Layout.rectangular(2, 10)).shape == (20, 64)


def test_the_cache_has_keys_and_values_of_every_layer(model: Wiola) -> None:
    cache = model.new_cache(1, 32)
    assert cache.keys.shape == cache.values.shape == (6, 1, 32, 2, 8)


def test_five_tokens_and_three_more_give_what_eight_give(model: Wiola) -> None:
    ids, cache = tokens(1, 1, 8), model.new_cache(1, 8)
    with no_grad():
        whole = model(ids).data
        parts = [model(ids[:, :5], cache=cache).data, model(ids[:, 5:], cache=cache).data]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-5)


# The language model: 4


def test_the_first_loss_is_the_logarithm_of_the_vocabulary_size(model: Wiola) -> None:
    ids = tokens(2, 4, 33)
    assert model.loss(ids[:, :-1], ids[:, 1:]).item() == pytest.approx(math.log(256), rel=0.02)


def test_there_is_a_logit_for_every_token(model: Wiola) -> None:
    assert model(tokens(3, 2, 7)).shape == (2, 7, 256)


def test_greedy_generation_continues_the_prompt(model: Wiola) -> None:
    prompt = tokens(4, 5).tolist()
    generated = list(stream(model, prompt, tokens=4, temperature=0, end_ids=()))
    for index, token in enumerate(generated):
        with no_grad():
            assert token == model([[*prompt, *generated[:index]]]).data[0, -1].argmax()


def test_head_and_embedding_are_one_matrix(model: Wiola) -> None:
    assert model.head() is model.model.embed_tokens.weight
    assert "lm_head.weight" not in model.state_dict()
