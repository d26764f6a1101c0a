"""A model that was saved and loaded is the same model, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import models
from tests.models.defaults import build_default
from tests.models.tiny import TINY, VOCAB, build, tokens


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", TINY)
def test_loaded_weights_and_logits_are_those_that_were_saved(family: str, dtype: str, tmp_path: Path) -> None:
    model = build(family, dtype, seed=5)
    model.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["torch_dtype"] == dtype
    loaded = models.load(tmp_path)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    for name, array in loaded.state_dict().items():
        assert array.dtype == dtype
        assert array.tobytes() == model.state_dict()[name].tobytes(), name
    ids = tokens(0, 2, 7)
    assert loaded.eval()(ids).data.tobytes() == model.eval()(ids).data.tobytes()


@pytest.mark.parametrize("family", models.FAMILIES)
def test_a_default_model_is_the_same_after_saving_and_loading(family: str, tmp_path: Path) -> None:
    model, ids = build_default(family, seed=2).eval(), tokens(0, 2, 65)
    model.save(tmp_path)
    assert models.load(tmp_path).eval()(ids).data.tobytes() == model(ids).data.tobytes()


@pytest.mark.parametrize("family", ["gpt2", "vidya-v2", "vsla", "wiola"])
def test_a_head_of_its_own_is_saved_and_loaded(family: str, tmp_path: Path) -> None:
    model, ids = build(family, tied_head=False), tokens(0, 2, 9)
    assert model.num_parameters() == build(family).num_parameters() + VOCAB * model.config.width
    model.save(tmp_path)
    assert models.load(tmp_path).eval()(ids).data.tobytes() == model.eval()(ids).data.tobytes()
