"""The network of a file: the right settings, and every array under the right name, in the right order of elements."""

from __future__ import annotations

import numpy as np
import pytest

import models
from minigrad.errors import InputError
from minigrad.formats.gguf.network import pairs_in_a_row, read_network
from minigrad.formats.safetensors import save_tensors
from minigrad.formats.weights import read_weights
from tests.models import tiny
from tests.models.tiny import change_config


@pytest.fixture
def saved(tmp_path):
    def save(family, **changes):
        shape = {"key_shift": False, "value_residual": False} if family == "vidya-v2" else {}
        tiny.build(family, **(shape | changes)).save(tmp_path)
        return tmp_path

    return save


def rotated(x, frequencies, position, *, interleaved):
    """Rotate one head (D,), plainly: pair j is (j, j + D/2), or (2j, 2j + 1)."""
    half = len(x) // 2
    result = x.copy()
    for j, frequency in enumerate(frequencies):
        first, second = (2 * j, 2 * j + 1) if interleaved else (j, j + half)
        cosine, sine = np.cos(position * frequency), np.sin(position * frequency)
        result[first] = x[first] * cosine - x[second] * sine
        result[second] = x[first] * sine + x[second] * cosine
    return result


def test_scores_do_not_change_when_queries_and_keys_are_reordered_for_the_other_pairs():
    draw = np.random.default_rng(0)
    heads, kv_heads, size, width = 4, 2, 6, 10
    q, k = draw.standard_normal((heads * size, width)), draw.standard_normal((kv_heads * size, width))
    x, y = draw.standard_normal((2, width))
    frequencies = 100.0 ** (-np.arange(0, size, 2) / size)

    def scores(q, k, interleaved):
        queries, keys = (q @ x).reshape(heads, size), (k @ y).reshape(kv_heads, size)
        return [
            rotated(queries[head], frequencies, 7, interleaved=interleaved)
            @ rotated(keys[head // 2], frequencies, 3, interleaved=interleaved)
            for head in range(heads)
        ]

    ours = scores(q, k, interleaved=False)
    np.testing.assert_allclose(scores(pairs_in_a_row(heads)(q), pairs_in_a_row(kv_heads)(k), interleaved=True), ours)
    assert not np.allclose(scores(q, k, interleaved=True), ours)


def test_a_llama_has_the_settings_and_arrays_of_its_config(saved):
    folder = saved("vidya-v2")
    network, weights = read_network(folder), read_weights(folder)
    assert network.metadata["general.architecture"] == "llama"
    assert network.metadata["general.name"] == folder.name
    settings = {key.removeprefix("llama."): value for key, value in network.metadata.items()}
    assert (settings["block_count"], settings["embedding_length"], settings["feed_forward_length"]) == (2, 12, 16)
    assert (settings["attention.head_count"], settings["attention.head_count_kv"]) == (4, 2)
    assert settings["attention.key_length"] == settings["attention.value_length"] == 4
    assert settings["rope.dimension_count"] == 4
    assert settings["rope.freq_base"] == 100_000.0
    assert settings["context_length"] == tiny.CONTEXT
    assert settings["vocab_size"] == network.vocab_size == tiny.VOCAB
    assert len(network.arrays) == len(weights)
    assert "output.weight" not in network.arrays
    for name in ("v", "q", "k"):
        ours, theirs = (
            weights[f"model.layers.1.self_attn.{name}_proj.weight"],
            network.arrays[f"blk.1.attn_{name}.weight"],
        )
        assert np.array_equal(ours, theirs) == (name == "v")
        assert np.array_equal(np.sort(ours, axis=0), np.sort(theirs, axis=0))
    for ours, theirs in {"gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}.items():
        np.testing.assert_array_equal(
            weights[f"model.layers.0.mlp.{ours}_proj.weight"], network.arrays[f"blk.0.{theirs}.weight"]
        )


def test_a_gpt2_is_transposed(saved):
    folder = saved("gpt2", tied_head=False)
    network, weights = read_network(folder), read_weights(folder)
    assert network.metadata["gpt2.attention.head_count"] == 3
    assert network.metadata["gpt2.context_length"] == tiny.CONTEXT
    assert len(network.arrays) == len(weights)
    np.testing.assert_array_equal(network.arrays["blk.1.attn_qkv.weight"], weights["h.1.attn.c_attn.weight"].T)
    np.testing.assert_array_equal(network.arrays["blk.1.ffn_down.weight"], weights["h.1.mlp.c_proj.weight"].T)
    np.testing.assert_array_equal(network.arrays["blk.1.ffn_down.bias"], weights["h.1.mlp.c_proj.bias"])
    np.testing.assert_array_equal(network.arrays["position_embd.weight"], weights["wpe.weight"])
    np.testing.assert_array_equal(network.arrays["output.weight"], weights["lm_head.weight"])


@pytest.mark.parametrize("family", ["gpt2", "vidya-v2"])
def test_what_other_programs_store_besides_is_left_out(saved, family):
    folder = saved(family)
    before, weights = read_network(folder).arrays, read_weights(folder)
    if family == "gpt2":
        weights = {f"transformer.{name}": array for name, array in weights.items()}
        weights["transformer.h.0.attn.bias"] = np.ones((1, 1, 24, 24), np.uint8)
        weights["transformer.h.0.attn.masked_bias"] = np.float32(-1e4)
    else:
        weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(2, np.float32)
    embedding = "transformer.wte.weight" if family == "gpt2" else "model.embed_tokens.weight"
    save_tensors(folder / "model.safetensors", weights | {"lm_head.weight": weights[embedding]})
    after = read_network(folder).arrays
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("family", ["gpt2", "vidya-v2"])
def test_another_head_than_the_embedding_is_refused_where_the_config_ties_them(saved, family):
    folder = saved(family)
    weights = read_weights(folder)
    embedding = "wte.weight" if family == "gpt2" else "model.embed_tokens.weight"
    save_tensors(folder / "model.safetensors", weights | {"lm_head.weight": 2 * weights[embedding]})
    with pytest.raises(
        InputError, match=rf"have an lm_head\.weight of their own, but config.json .* it is {embedding}"
    ):
        read_network(folder)
    save_tensors(folder / "model.safetensors", {"lm_head.weight": weights[embedding]})
    with pytest.raises(InputError, match=f"do not fit the model: missing: {embedding}"):
        read_network(folder)


@pytest.mark.parametrize("family", sorted({*models.FAMILIES} - {"gpt2", "vidya-v2"}))
def test_a_family_that_llama_cpp_does_not_know_is_refused(saved, family):
    with pytest.raises(
        InputError,
        match=r"cannot run; it can run llama \(vidya-v2, .*key_shift=false\) and gpt2 \(gpt2\)",
    ):
        read_network(saved(family))


@pytest.mark.parametrize("name", ["key_shift", "value_residual"])
def test_what_llama_cpp_would_leave_out_is_refused(saved, name):
    with pytest.raises(
        InputError,
        match=r"which llama\.cpp cannot run, because .*key_shift=false, or .* minigrad\.formats\.transformers",
    ):
        read_network(saved("vidya-v2", **{name: True}))


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is not a run folder: it has no config\.json"):
        read_network(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu"}, r"config\.json: hidden_act = 'gelu'"),
        ({"num_hidden_layers": 3}, r"missing: model\.layers\.2\.input_layernorm\.weight"),
        ({"num_hidden_layers": 1}, r"unexpected: model\.layers\.1"),
        ({"intermediate_size": 17}, "of another shape"),
        ({"hidden_size": "x"}, "hidden_size takes a whole number"),
        ({"model_type": ["llama"]}, r"model_type \['llama'\]"),
        ({"num_key_value_heads": 2**40}, "num_key_value_heads takes a whole number"),
        ({"head_dim": 5}, "head_dim must be even, because rotary positions rotate pairs; it is 5"),
        ({"head_dim": None, "num_attention_heads": 13}, "head_dim must be even, .*; it is 0"),
    ],
)
def test_a_folder_that_does_not_fit_together_is_refused(saved, changes, message):
    folder = saved("vidya-v2")
    change_config(folder, **changes)
    with pytest.raises(InputError, match=message):
        read_network(folder)
