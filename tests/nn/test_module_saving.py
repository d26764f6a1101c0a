"""The entries of modules are part of config.json, and a file holds what each parameter stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from minigrad import InputError, nn
from minigrad.formats.safetensors import read_tensors
from minigrad.nn.module import arrays_of, entries_of


class Noted(nn.Wrapper):
    """A layer that config.json mentions, unless it is too large."""

    def config_entries(self) -> dict[str, Any]:
        if self.num_parameters() > 10_000:
            raise InputError("it is too large for a folder")
        return {"noted": True}


def test_entries_of_modules_and_arrays_of_parameters_are_written(tmp_path: Path) -> None:
    model = models.build("vidya-v2", "nano", vocab_size=20)
    nn.replace(model, {"model.norm": Noted(model.model.norm)})  # type: ignore[attr-defined]
    model.save(tmp_path)
    assert entries_of(model) == {"noted": True}
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["noted"]
    stored = read_tensors(tmp_path / "model.safetensors")
    assert stored.keys() == arrays_of(model).keys() == model.state_dict().keys()
    np.testing.assert_array_equal(stored["model.norm.weight"], model.state_dict()["model.norm.weight"])


def test_a_module_that_cannot_be_saved_leaves_no_folder(tmp_path: Path) -> None:
    model = models.build("vidya-v2", "nano", vocab_size=20)
    nn.replace(model, {"model.layers.0.mlp": Noted(model.model.layers[0].mlp)})  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="too large"):
        model.save(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_arrays_without_numbers_are_refused_before_anything_is_changed() -> None:
    layer = nn.Linear(2, 2)
    before = layer.weight.data.copy()
    with pytest.raises(InputError, match="bias is an array of dtype <U1"):
        layer.load_state_dict({"weight": np.ones((2, 2)), "bias": np.array(["a", "b"])})
    np.testing.assert_array_equal(layer.weight.data, before)
