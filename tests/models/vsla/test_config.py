"""The shapes of VSLA: the patterns in a config and in a file, what is refused, and stored activations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import models
from minigrad import InputError
from tests.models.tiny import build


def test_patterns_are_a_cycle_over_the_layers_and_a_list_in_the_file() -> None:
    config: Any = models.configure("vsla", "nano", patterns="local+full", num_layers=5)
    assert [config.pattern(layer).kind for layer in range(5)] == ["local", "full", "local", "full", "local"]
    assert config.published()["attention_patterns"] == ["local", "full"]
    default: Any = models.configure("vsla", "nano")
    assert {default.pattern(layer).kind for layer in range(6)} == {"full", "local", "sparse", "pyramid", "adaptive"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"patterns": "local+piramid"}, "unknown attention pattern 'piramid'; did you mean 'pyramid'?"),
        ({"patterns": ""}, "unknown attention pattern ''"),
        ({"patterns": "local+full", "num_layers": 1}, r"patterns names 2 layers \(local\+full\), but there are 1"),
        ({"window": 0}, "window takes a whole number of at least 1 .*, not 0"),
        ({"block": 0}, "block takes a whole number of at least 1 .*, not 0"),
        ({"top_k": -1}, "top_k takes a whole number of at least 1 .*, not -1"),
        ({"entropy": 1.5}, r"entropy takes a finite number of at least 0 and at most 1, not 1\.5"),
        ({"num_heads": 7}, r"width \(90\) must be a multiple of num_heads \(7\)"),
    ],
)
def test_a_shape_that_cannot_be_built_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        models.count("vsla", "nano", **fields)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attention_patterns": ["local", "far"]}, "unknown attention pattern 'far'"),
        ({"attention_patterns": [1, 2]}, r"attention_patterns takes text, not \[1, 2\]"),
        ({"attention_patterns": []}, "unknown attention pattern ''"),
        ({"attention_window": 0}, "attention_window takes a whole number of at least 1"),
        ({"activation_function": "relu"}, "activation_function = 'relu'; this family needs 'gelu_new'"),
    ],
)
def test_a_folder_with_other_patterns_is_refused(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    build("vsla").save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        models.load(tmp_path)


def test_stored_keys_cost_what_their_patterns_need() -> None:
    full, other = (models.configure("vsla", "nano", patterns=each) for each in ("full", "local"))
    assert full.activations_per_token() == other.activations_per_token()
    sparse, pyramid = (models.configure("vsla", "nano", patterns=each) for each in ("sparse", "pyramid"))
    assert sparse.activations_per_token() == full.activations_per_token() + 6 * 2 * 3 * 32
    assert pyramid.activations_per_token() == full.activations_per_token() + 6 * 90
