"""Loading, and initial weights from a folder: weights and config that do not fit are refused with every difference."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from minigrad import InputError
from minigrad.adapters import adapt
from minigrad.adapters.files import save
from minigrad.formats.huggingface import GENERATION
from minigrad.formats.json_files import read_json, write_json
from minigrad.formats.safetensors import save_tensors
from models.loading import InitialWeights, grown_config
from models.pretrained import FOLDER
from tests.models.tiny import TINY, VOCAB, build, tokens

every_family = pytest.mark.parametrize("family", TINY)

# Numbers in config.json that no model here reads.
UNUSED = {"bos_token_id", "pad_token_id", "n_ctx", "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop"}


def settings(folder: Path) -> dict[str, Any]:
    return read_json(folder / "config.json")


def change_settings(folder: Path, values: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")


def in_shards(family: str, folder: Path) -> list[Path]:
    """Save a model in three files and an index, as large models are published."""
    model = build(family)
    model.save(folder)
    (folder / "model.safetensors").unlink()
    names = list(model.state_dict())
    files = {name: f"model-0000{1 + index % 3}-of-00003.safetensors" for index, name in enumerate(names)}
    for file in set(files.values()):
        part = {name: array for name, array in model.state_dict().items() if files[name] == file}
        save_tensors(folder / file, part)
    write_json(folder / "model.safetensors.index.json", {"weight_map": files})
    return sorted(folder.glob("model-*"))


@every_family
def test_every_difference_between_weights_and_config_is_listed(family: str, tmp_path: Path) -> None:
    model = build(family)
    model.save(tmp_path)
    weights, width = model.state_dict(), model.config.width
    embedding, *_, missing = weights
    del weights[missing]
    weights |= {"stray.weight": np.zeros(3, np.float32), embedding: weights[embedding][:-1]}
    save_tensors(tmp_path / "model.safetensors", weights)
    with pytest.raises(InputError) as caught:
        models.load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: the weights do not fit the model: missing: {missing}; unexpected: stray.weight; "
        f"of another shape: {embedding} is {(VOCAB - 1, width)}, should be {(VOCAB, width)}"
    )


@every_family
def test_weights_of_another_family_are_refused(family: str, tmp_path: Path) -> None:
    build(family).save(tmp_path)
    other = next(name for name in reversed(TINY) if name != family)
    save_tensors(tmp_path / "model.safetensors", build(other).state_dict())
    with pytest.raises(InputError, match=r"missing: .* and \d+ more; unexpected: .* and \d+ more"):
        models.load(tmp_path)


@every_family
def test_shards_are_joined(family: str, tmp_path: Path) -> None:
    assert len(in_shards(family, tmp_path)) == 3
    ids = tokens(0, 1, 9)
    assert models.load(tmp_path).eval()(ids).data.tobytes() == build(family).eval()(ids).data.tobytes()


@every_family
@pytest.mark.parametrize("damage", ["missing", "cut short", "of another model"])
def test_a_shard_that_does_not_match_the_index_is_refused(family: str, damage: str, tmp_path: Path) -> None:
    shard = in_shards(family, tmp_path)[1]
    if damage == "missing":
        shard.unlink()
    elif damage == "cut short":
        shard.write_bytes(shard.read_bytes()[:-7])
    else:
        save_tensors(shard, {"other.weight": np.zeros(3, np.float32)})
    message = r"model\.safetensors\.index\.json lists weights that its files do not hold: .* and \d+ more"
    with pytest.raises(InputError, match=message if damage == "of another model" else shard.name):
        models.load(tmp_path)


@every_family
def test_a_stored_copy_of_the_tied_head_must_equal_it(family: str, tmp_path: Path) -> None:
    model = build(family)
    model.save(tmp_path)
    weights = model.state_dict() | {"lm_head.weight": model.head().data.copy()}
    save_tensors(tmp_path / "model.safetensors", weights)
    assert models.load(tmp_path).num_parameters() == model.num_parameters()
    weights["lm_head.weight"][3, 1] += 1
    save_tensors(tmp_path / "model.safetensors", weights)
    with pytest.raises(
        InputError, match=r"lm_head\.weight of their own, .*json says that it is (model\.embed_tokens|wte)"
    ):
        models.load(tmp_path)


@pytest.mark.parametrize("lacking", ["srpe_theta", "dsff_wide_size"])
def test_another_design_with_the_model_type_wiola_is_refused(lacking: str, tmp_path: Path) -> None:
    build("wiola").save(tmp_path)
    change_settings(tmp_path, {key: value for key, value in settings(tmp_path).items() if key != lacking})
    with pytest.raises(InputError, match="model_type 'wiola', in a form that no family here has; there are gpt2, "):
        models.load(tmp_path)


@pytest.mark.parametrize("model_type", ["mistral", "gpt_neox", "vidya-v9", None, 3, [], {}])
def test_other_architectures_are_named(model_type: Any, tmp_path: Path) -> None:
    build("vidya-v2").save(tmp_path)
    change_settings(tmp_path, settings(tmp_path) | {"model_type": model_type})
    with pytest.raises(
        InputError, match=rf"config\.json is of model_type {re.escape(repr(model_type))}, in a form that no family"
    ):
        models.load(tmp_path)


@every_family
@pytest.mark.parametrize("value", [None, "many", [], {}, True, 1.5])
def test_a_setting_of_the_wrong_type_is_refused(family: str, value: Any, tmp_path: Path) -> None:
    build(family).save(tmp_path)
    right = settings(tmp_path)
    kinds = (int,) if value == 1.5 else (int, float)
    numbers = [key for key, number in right.items() if type(number) in kinds and key not in UNUSED]
    assert len(numbers) >= 7
    for key in numbers:
        change_settings(tmp_path, right | {key: value})
        with pytest.raises(InputError, match=r"config\.json describes no .* that can be|do not fit the model"):
            models.load(tmp_path)


def test_weights_of_the_same_model_are_copied_when_filling(tmp_path: Path) -> None:
    build("gpt2", seed=3).save(tmp_path)
    model = build("gpt2", seed=4)
    found = models.initial_weights_for(model, tmp_path)
    assert (found.grown, found.moments, found.updates) == ("", {}, 0)
    found.fill(model)
    for name, array in build("gpt2", seed=3).state_dict().items():
        np.testing.assert_array_equal(model.state_dict()[name], array)


def test_weights_of_a_narrower_model_grow_when_filling(tmp_path: Path) -> None:
    narrow = build("vidya-v2")
    narrow.save(tmp_path)
    changes = {"width": 15, "norm_eps": 1e-5 * 12 / 15}
    wide, ids = build("vidya-v2", **changes), tokens(0, 1, 9)
    found = models.initial_weights_for(wide, tmp_path)
    assert isinstance(found, InitialWeights)
    assert (found.grown, found.width) == ("width 12 to 15", 12)
    found.fill(wide)
    np.testing.assert_allclose(wide(ids).data, narrow(ids).data, rtol=0, atol=2e-5 * np.abs(narrow(ids).data).max())
    with pytest.raises(InputError, match=r"grows \(width 12 to 15\) only with norm_eps"):
        models.initial_weights_for(build("vidya-v2", width=15), tmp_path)


@pytest.mark.parametrize("changes", [{}, {"width": 15, "norm_eps": 1e-5 * 12 / 15}])
def test_nothing_begins_from_weights_that_are_not_finite(tmp_path: Path, changes: dict[str, Any]) -> None:
    model = build("vidya-v2")
    model.parameters()[0].data[1, 2] = np.inf
    model.save(tmp_path)
    with pytest.raises(InputError, match=r"is damaged: model\.embed_tokens\.weight has elements that are not finite"):
        models.initial_weights_for(build("vidya-v2", **changes), tmp_path)


def test_a_run_ends_its_texts_with_the_tokens_of_the_model_from_which_it_begins(tmp_path: Path) -> None:
    narrow = build("vidya-v2")
    narrow.end_ids = (4,)
    narrow.save(tmp_path / "base")
    adapt(narrow, 2)
    save(narrow, tmp_path / "adapters", base=tmp_path / "base")
    (tmp_path / "adapters" / GENERATION).unlink()  # those of the base are then valid
    for folder, changes in (("base", {}), ("adapters", {}), ("base", {"width": 15, "norm_eps": 1e-5 * 12 / 15})):
        model = build("vidya-v2", **changes)
        models.initial_weights_for(model, tmp_path / folder).fill(model)
        assert model.end_ids == models.load(tmp_path / folder).end_ids == (0, 4)


def test_several_tokens_of_a_config_end_a_text(tmp_path: Path) -> None:
    model = build("vidya-v2")
    model.save(tmp_path)
    change_settings(tmp_path, settings(tmp_path) | {"eos_token_id": [0, 5]})
    found = models.load(tmp_path)
    assert (found.config, found.end_ids) == (model.config, (0, 5))


def test_only_families_that_can_grow_get_a_grown_config() -> None:
    config = models.configure("gpt2")
    with pytest.raises(InputError, match="a model of gpt2 cannot grow; only vidya-v2 can"):
        grown_config("gpt2", config, models.configure("gpt2", "micro"))
    config = models.configure("vidya-v2", "2.0")
    assert grown_config("vidya-v2", config, models.configure("vidya-v2", "2.1")).width == 768  # type: ignore[attr-defined]


@pytest.mark.parametrize("read", [models.load, models.grow])
def test_a_folder_without_a_model_is_answered_with_one_that_may_be_meant(read: Any, tmp_path: Path) -> None:
    build("vidya-v2").save(tmp_path / "mine")
    for given, said in {
        tmp_path: f"{tmp_path} is not a run folder: it has no config.json",
        tmp_path / "mien": f"there is no folder {tmp_path / 'mien'}",
    }.items():
        with pytest.raises(InputError) as caught:
            read(given)
        assert str(caught.value) == f"{said}; did you mean {tmp_path / 'mine'}?"


def test_a_quantised_model_names_a_folder_to_start_from_and_a_shipped_one_names_the_others(tmp_path: Path) -> None:
    path = FOLDER / "vidya-v2-micro" / "config.json"
    with pytest.raises(InputError, match=r"can be a --teacher; start from vidya-v2-nano or vidya-v2-nano-chat$"):
        models.start_from(read_json(path), path, None, "auto")
    with pytest.raises(InputError, match="start from vidya-v2-nano or vidya-v2-nano-chat"):
        models.grow("vidya-v2-micro", width=256)
    with pytest.raises(InputError, match=r"take the folder of the model before it was quantised$"):
        models.start_from(read_json(path), tmp_path / "config.json", None, "auto")
