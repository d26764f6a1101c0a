"""The settings of rotary positions, old and new, in llama.cpp's words."""

from __future__ import annotations

import math

import pytest

from minigrad.errors import InputError
from minigrad.formats.gguf.network import rotary_metadata


@pytest.mark.parametrize(
    "values",
    [
        {"rope_theta": 777.0},
        {"rope_theta": 777, "rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 777.0}},
    ],
)
def test_theta_where_older_and_newer_files_have_it(values):
    assert rotary_metadata(values, 64) == {"rope.freq_base": 777.0}


def test_without_theta_it_is_ten_thousand():
    assert rotary_metadata({}, 64) == {"rope.freq_base": 10_000.0}


@pytest.mark.parametrize("kind", ["type", "rope_type"])
def test_linear(kind):
    found = rotary_metadata({"rope_theta": 5.0, "rope_scaling": {kind: "linear", "factor": 4}}, 64)
    assert found == {"rope.freq_base": 5.0, "rope.scaling.type": "linear", "rope.scaling.factor": 4.0}


def test_yarn():
    scaling = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0, "attention_factor": 1.5}
    found = rotary_metadata({"rope_scaling": scaling, "original_max_position_embeddings": 32}, 128)
    assert found["rope.scaling.type"] == "yarn"
    assert found["rope.scaling.original_context_length"] == 32
    assert (found["rope.scaling.yarn_beta_fast"], found["rope.scaling.yarn_beta_slow"]) == (16.0, 1.0)
    factor = found["rope.scaling.attn_factor"]
    assert math.isclose(factor * (0.1 * math.log(4) + 1), 1.5)
    assert "rope.scaling.attn_factor" not in rotary_metadata({"rope_scaling": {"type": "yarn", "factor": 2.0}}, 128)


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}, "rope_type is 'llama3', not one of default"),
        ({"type": "linear", "factor": 0.5}, "rope_scaling.factor takes a finite number of at least 1"),
        ({"type": "yarn", "factor": 2.0, "mscale": 1.0}, "rope_scaling.mscale is unknown"),
        ([], r"rope_scaling = \[\], which should be an object"),
    ],
)
def test_what_llama_cpp_would_compute_in_another_way_is_refused(scaling, message):
    with pytest.raises(InputError, match=message):
        rotary_metadata({"rope_scaling": scaling}, 64)
