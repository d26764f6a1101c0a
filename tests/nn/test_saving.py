"""Models as folders: the entries of modules are part of config.json, and nothing is written if one refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, nn
from minigrad.formats.safetensors import read_tensors
from minigrad.nn.saving import save_model


class Noted(nn.Linear):
    """A layer that config.json mentions."""

    def config_entries(self) -> dict[str, Any]:
        if len(self.weight) > 2:
            raise InputError("it is too large for a folder")
        return {"noted": True}


def test_entries_of_modules_and_arrays_of_parameters_are_written(tmp_path: Path) -> None:
    model = nn.Sequential(Noted(2, 1, bias=False))
    save_model(model, {"model_type": "none", "eos_token_id": 3}, tmp_path, None)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config == {"model_type": "none", "eos_token_id": 3, "noted": True}
    assert json.loads((tmp_path / "generation_config.json").read_text(encoding="utf-8")) == {"eos_token_id": 3}
    np.testing.assert_array_equal(read_tensors(tmp_path / "model.safetensors")["0.weight"], model[0].weight.data)  # type: ignore[attr-defined]


def test_a_module_that_cannot_be_saved_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too large"):
        save_model(nn.Sequential(Noted(2, 3)), {}, tmp_path / "new", None)
    assert not (tmp_path / "new").exists()
