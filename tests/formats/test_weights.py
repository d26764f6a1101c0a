"""The weights of a folder: one file or shards, and exactly the names that a model expects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from minigrad.formats.json_files import write_json
from minigrad.formats.safetensors import save_tensors
from minigrad.formats.weights import (
    check_arrays,
    hash_of_arrays,
    read_shapes,
    read_weights,
    rename_published,
    without_copy_of_tied,
)
from tests.refusals import refusal


def write_shards(folder: Path) -> dict[str, np.ndarray]:
    weights = {name: np.full(2, number, np.float32) for number, name in enumerate("abc")}
    save_file({"a": weights["a"], "c": weights["c"]}, folder / "one.safetensors")
    save_file({"b": weights["b"]}, folder / "two.safetensors")
    weight_map = {"a": "one.safetensors", "b": "two.safetensors", "c": "one.safetensors"}
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})
    return weights


def test_weights_are_read_from_shards(tmp_path):
    weights = write_shards(tmp_path)
    read = read_weights(tmp_path)
    assert set(read) == set(weights)
    for name, value in weights.items():
        np.testing.assert_array_equal(read[name], value)


def test_a_missing_shard_or_a_shard_without_its_weights_is_refused(tmp_path):
    write_shards(tmp_path)
    save_file({"z": np.ones(1)}, tmp_path / "two.safetensors")
    assert "lists weights that its files do not hold: b" in refusal(read_weights, tmp_path)
    (tmp_path / "two.safetensors").unlink()
    assert "two.safetensors: No such file" in refusal(read_weights, tmp_path)
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": 3})
    assert "holds no weight_map" in refusal(read_weights, tmp_path)


def test_an_array_in_two_shards_is_refused(tmp_path):
    write_shards(tmp_path)
    save_file({"b": np.ones(2), "a": np.full(2, 7.0)}, tmp_path / "two.safetensors")
    assert "one.safetensors and two.safetensors both hold a: one does not belong to" in refusal(read_weights, tmp_path)


def test_a_whole_file_in_a_folder_goes_before_shards_and_a_pickle_is_never_opened(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    assert "never loaded" in refusal(read_weights, tmp_path)
    write_shards(tmp_path)
    save_tensors(tmp_path / "model.safetensors", {"whole": np.ones(1)})
    assert set(read_weights(tmp_path)) == {"whole"}


def test_names_and_shapes_are_compared_with_what_the_model_expects():
    weights = {"a": np.zeros((2, 3)), "b": np.zeros(4), "extra": np.zeros(1)}
    check_arrays(weights, {"a": (2, 3), "b": (4,), "extra": (1,)})
    message = refusal(check_arrays, weights, {"a": (3, 2), "b": (4,)} | {f"m{i}": (1,) for i in range(7)})
    assert message == (
        "the weights do not fit the model: missing: m0, m1, m2, m3, m4 and 2 more; unexpected: extra; "
        "of another shape: a is (2, 3), should be (3, 2)"
    )


def test_shapes_are_read_without_the_arrays(tmp_path):
    write_shards(tmp_path)
    shapes = read_shapes(tmp_path)
    assert {name: (array.shape, array.dtype) for name, array in shapes.items()} == {
        name: (array.shape, array.dtype) for name, array in read_weights(tmp_path).items()
    }
    assert all(array.strides == (0,) for array in shapes.values())


@pytest.mark.parametrize("weight_map", [{"a": 3}, {"a": ["one.safetensors"]}, {"a": None}, [1], {"a": "../one"}])
def test_an_index_names_files_of_its_own_folder(tmp_path, weight_map):
    write_shards(tmp_path)
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": weight_map})
    assert "model.safetensors.index.json" in refusal(read_weights, tmp_path)


@pytest.mark.parametrize("dtype", ["uint32", "int8"])
def test_weights_are_floating_point_or_exactly_of_the_type_of_a_run(dtype):
    weights = {"a": np.zeros(1, np.float64), "b": np.zeros(1, dtype)}
    shapes = {"a": (1,), "b": (1,)}
    assert refusal(check_arrays, weights, shapes).endswith(f"of another type: b is {dtype}, should be floating-point")
    assert "a is float64, should be float32" in refusal(check_arrays, weights, shapes, "float32")


def test_published_names_lose_their_prefix_and_what_is_no_weight_of_the_model():
    names = ["a.attn.c_attn.bias", "a.attn.bias", "a.attn.masked_bias", "a.self_attn.rotary_emb.inv_freq", "lm_head"]
    weights = {f"body.{name}": np.zeros(1) for name in names}
    assert [*rename_published(weights, "body.", ())] == ["a.attn.c_attn.bias", "lm_head"]
    assert [*rename_published(weights, "", {"body.a.attn.bias"})] == [f"body.{names[n]}" for n in (0, 1, 4)]


def test_a_copy_of_a_tied_head_is_left_out_and_another_head_refused():
    weights = {"wte.weight": np.array([1.0, np.nan]), "b": np.ones(1)}
    copied = weights | {"lm_head.weight": weights["wte.weight"].copy()}
    assert [*dict(without_copy_of_tied(copied.items(), "wte.weight", "a folder"))] == ["wte.weight", "b"]
    other = weights | {"lm_head.weight": np.ones(2)}
    refused = refusal(dict, without_copy_of_tied(other.items(), "wte.weight", "a folder"))
    assert refused.startswith("the weights in a folder have an lm_head.weight of their own")


def test_the_hash_of_arrays_depends_on_names_and_values_and_not_on_the_order_or_the_memory():
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32(1)
    found = hash_of_arrays({"a": a, "b": b})
    assert found == hash_of_arrays({"b": b, "a": np.asfortranarray(a)})
    others = {"a": a}, {"c": a, "b": b}, {"a": -a, "b": b}
    assert len({found, *map(hash_of_arrays, others)}) == 4
    assert hash_of_arrays({"none": a[:0]}) != hash_of_arrays({})
