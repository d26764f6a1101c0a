"""Variants of an architecture in a config.json."""

from __future__ import annotations

import pytest

from minigrad.errors import InputError
from minigrad.formats.huggingface import config_path, read_fields, require_variant
from models.gpt2 import GPT2Config

NEEDED = {"hidden_act": "silu", "attention_bias": False}


@pytest.mark.parametrize("values", [{}, {"hidden_act": "silu"}, {**NEEDED, "other": 3}])
def test_equal_and_missing_keys_are_accepted(values):
    require_variant(values, NEEDED)


def test_another_value_is_refused_with_both_values():
    with pytest.raises(InputError, match=r"config\.json has hidden_act = 'gelu'; this family needs 'silu'"):
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
        ({"n_embd": 8, "n_layer": None}, "n_layer takes a whole number of at least 1 and at most 10000, not None"),
        ({"n_embd": 4 * 10**17, "n_layer": 2}, "n_embd takes a whole number of at least 1 and at most 1048576, not 4"),
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
