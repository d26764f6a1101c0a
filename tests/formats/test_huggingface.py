"""Variants of an architecture in a config.json, and folders that are written completely or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.errors import InputError, RunError
from minigrad.formats.huggingface import config_path, read_end_ids, read_fields, require_variant, write_folder
from minigrad.formats.json_files import read_json, write_json
from models.gpt2 import GPT2Config
from tests.full_disks import files_up_to, needs_limits

NEEDED = {"hidden_act": "silu", "attention_bias": False}


@pytest.mark.parametrize("values", [{}, {"hidden_act": "silu"}, {**NEEDED, "other": 3}])
def test_equal_and_missing_keys_are_accepted(values):
    require_variant(values, NEEDED)


def test_another_value_is_refused_with_both_values():
    with pytest.raises(InputError, match=r"^hidden_act = 'gelu'; this family needs 'silu'"):
        require_variant({"hidden_act": "gelu"}, NEEDED)


def test_a_value_of_another_type_is_another_value():
    with pytest.raises(InputError, match="attention_bias = 0; this family needs False"):
        require_variant({"attention_bias": 0}, NEEDED)


def test_fields_are_read_under_their_published_names():
    keys = {"n_embd": "width", "n_layer": "num_layers"}
    assert read_fields(GPT2Config, {"n_embd": 8, "n_layer": 2, "other": "x"}, keys) == {"width": 8, "num_layers": 2}
    assert read_fields(GPT2Config, {"n_embd": 8}, keys, {"n_layer": 3}) == {"width": 8, "num_layers": 3}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_embd": 8}, "n_layer is missing"),
        ({"n_embd": 8, "n_layer": None}, "n_layer takes a whole number of at least 1 and at most 10,000, not None"),
        (
            {"n_embd": 4 * 10**17, "n_layer": 2},
            "n_embd takes a whole number of at least 1 and at most 1,048,576, not 4",
        ),
    ],
)
def test_a_missing_field_or_a_value_that_is_not_allowed_is_named(values, message):
    with pytest.raises(InputError, match=message):
        read_fields(GPT2Config, values, {"n_embd": "width", "n_layer": "num_layers"})


def test_a_folder_of_adapters_is_not_a_model_yet(tmp_path):
    with pytest.raises(InputError, match=r"is not a run folder: it has no config\.json"):
        config_path(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"holds adapters .* merge them first, by models\.load\(.*\)\.save\(DIR\), and copy"
    ):
        config_path(tmp_path)
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert config_path(tmp_path) == tmp_path / "config.json"


@needs_limits
def test_a_full_disk_leaves_no_new_config_beside_old_weights(tmp_path):
    write_folder(tmp_path, {"model_type": "a", "eos_token_id": 1}, {"w": np.ones(2)})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 3
    with files_up_to(5_000), pytest.raises(RunError, match=r"cannot write .*model\.safetensors .*: File too large"):
        write_folder(tmp_path, {"model_type": "b", "eos_token_id": 2}, {"w": np.ones(1_000)})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_weights_that_cannot_be_replaced_keep_their_config(tmp_path):
    write_folder(tmp_path, {"model_type": "a"}, {"w": np.ones(2)})
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(RunError, match=r"cannot write .*model\.safetensors"):
        write_folder(tmp_path, {"model_type": "b"}, {"w": np.ones(3)})
    assert read_json(tmp_path / "config.json") == {"model_type": "a"}


@pytest.mark.parametrize(("end_ids", "written"), [((), 1), ((1,), 1), ((1, 4), [1, 4]), ((4,), [1, 4])])
def test_ids_that_end_a_text_are_one_number_or_a_list(end_ids, written, tmp_path):
    write_folder(tmp_path, {"eos_token_id": 1}, {}, end_ids)
    assert read_json(tmp_path / "generation_config.json") == {"eos_token_id": written}
    assert read_end_ids(tmp_path) == (tuple(written) if isinstance(written, list) else ())


@pytest.mark.parametrize("content", ["damaged", '{"eos_token_id": ["a"]}', '{"eos_token_id": [true]}', "[]"])
def test_a_damaged_list_of_ids_is_refused(content, tmp_path):
    (tmp_path / "generation_config.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"generation_config\.json"):
        read_end_ids(tmp_path)


@pytest.mark.parametrize("content", ["{}", '{"eos_token_id": 3}', None])
def test_a_folder_that_names_no_ids_has_none(content, tmp_path):
    if content is not None:
        (tmp_path / "generation_config.json").write_text(content, encoding="utf-8")
    assert read_end_ids(tmp_path) == ()


def test_a_config_lists_the_ids_that_end_a_text_if_no_other_file_does(tmp_path):
    write_json(tmp_path / "config.json", {"eos_token_id": [1, 5]})
    assert read_end_ids(tmp_path) == (1, 5)
    write_json(tmp_path / "generation_config.json", {"eos_token_id": [1, 4]})
    assert read_end_ids(tmp_path) == (1, 4)


def test_the_auto_map_of_a_config_stays_while_it_is_of_the_same_type(tmp_path):
    path, places = tmp_path / "config.json", {"AutoConfig": "a.B"}
    write_json(path, {"model_type": "a", "auto_map": places, "old": 1})
    write_folder(tmp_path, {"model_type": "a"}, {})
    assert read_json(path) == {"model_type": "a", "auto_map": places}
    write_folder(tmp_path, {"model_type": "b"}, {})
    assert read_json(path) == {"model_type": "b"}
    path.write_text("damaged", encoding="utf-8")
    write_folder(tmp_path, {"model_type": "a"}, {})
    assert read_json(path) == {"model_type": "a"}


def test_one_id_of_the_generation_config_holds_if_the_config_has_another(tmp_path):
    write_json(tmp_path / "config.json", {"eos_token_id": 1})
    write_json(tmp_path / "generation_config.json", {"eos_token_id": 1})
    assert read_end_ids(tmp_path) == ()
    write_json(tmp_path / "generation_config.json", {"eos_token_id": 4})
    assert read_end_ids(tmp_path) == (4,)
    for of_config in ({"eos_token_id": [1, 5]}, {"eos_token_id": None}, {}):
        write_json(tmp_path / "config.json", of_config)
        assert read_end_ids(tmp_path) == (4,)
    write_json(tmp_path / "config.json", {"eos_token_id": [4, 5]})
    assert read_end_ids(tmp_path) == (4, 5)
