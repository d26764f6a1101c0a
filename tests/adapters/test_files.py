"""Folders of adapters: PEFT's names, the same model after loading, and what does not fit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from minigrad import InputError, RunError, no_grad
from minigrad.adapters import adapt, adapt_tokens
from minigrad.adapters.files import WEIGHTS, base_of, is_adapter, model_below, save, trained
from minigrad.formats.folders import ADAPTERS
from minigrad.formats.safetensors import read_tensors, save_tensors
from minigrad.nn.language_model import LanguageModel
from tests.full_disks import files_up_to, needs_limits
from tests.models.tiny import build, tokens

IDS = tokens(0, 1, 7)


def logits(model: LanguageModel) -> Any:
    with no_grad():
        return model(IDS).data.copy()


def taught(family: str, folder: Path, **changes: Any) -> LanguageModel:
    """Save a base, and beside it adapters that change it; return the model with them."""
    model = build(family, **changes)
    model.save(folder / "base")
    adapt(model, 2)
    adapt_tokens(model, [1, 4])
    rng = np.random.default_rng(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name or "delta" in name:
            parameter.data = rng.normal(size=parameter.shape)
    save(model, folder / "adapter", base=folder / "base")
    return model


def rewrite(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / ADAPTERS).read_text(encoding="utf-8"))
    (folder / ADAPTERS).write_text(json.dumps(content | changes), encoding="utf-8")


@pytest.mark.parametrize(
    ("family", "layer", "table", "targets"),
    [
        (
            "vidya-v2",
            "model.layers.1.self_attn.q_proj",
            "model.embed_tokens",
            ["down", "gate", "k", "o", "q", "up", "v"],
        ),
        ("gpt2", "transformer.h.1.attn.c_attn", "transformer.wte", None),
    ],
)
def test_the_files_are_those_of_peft_and_give_the_same_model(
    family: str, layer: str, table: str, targets: list[str] | None, tmp_path: Path
) -> None:
    model = taught(family, tmp_path)
    folder = tmp_path / "adapter"
    stored = read_tensors(folder / WEIGHTS)
    assert all(name.startswith("base_model.model.") for name in stored)
    assert stored[f"base_model.model.{layer}.lora_A.weight"].shape == (2, 12)
    assert stored[f"base_model.model.{layer}.lora_B.weight"].shape[1] == 2
    assert stored[f"base_model.model.{table}.token_adapter.trainable_tokens_delta"].shape == (2, 12)
    config = json.loads((folder / ADAPTERS).read_text(encoding="utf-8"))
    assert config["trainable_token_indices"] == {table.split(".")[-1]: [1, 4]}
    assert (config["peft_type"], config["task_type"], config["r"], config["lora_alpha"]) == ("LORA", "CAUSAL_LM", 2, 2)
    assert config["fan_in_fan_out"] == (family == "gpt2")
    assert config["target_modules"] == (
        [f"{each}_proj" for each in targets] if targets else ["c_attn", "c_fc", "c_proj"]
    )
    assert is_adapter(folder)
    assert base_of(folder) == tmp_path / "base"
    assert model_below(tmp_path / "base") == tmp_path / "base"
    wanted = logits(model)
    np.testing.assert_allclose(logits(models.load(folder)), wanted, atol=1e-5 * np.abs(wanted).max())
    assert not np.allclose(logits(models.load(tmp_path / "base")), wanted, atol=0.1)
    assert len(trained(model)) == len(stored)
    np.testing.assert_allclose(
        logits(models.load(folder, quantize="float16")), wanted, atol=0.02 * np.abs(wanted).max()
    )


def test_a_base_is_looked_for_from_here_and_from_the_folder_of_its_adapters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = taught("vidya-v2", tmp_path), tmp_path / "adapter"
    rewrite(folder, base_model_name_or_path="../base")
    assert base_of(folder) == folder / "../base"
    monkeypatch.chdir(tmp_path)
    rewrite(folder, base_model_name_or_path="base")
    assert base_of(folder) == Path("base")
    with pytest.raises(InputError, match="base=vidya-v2-nano is not a folder of a model or of adapters"):
        save(model, "again", base="vidya-v2-nano")
    save(model, "again", base="base")
    assert base_of("again") == tmp_path / "base"  # wherever the program is started
    (tmp_path / "base" / ADAPTERS).write_text("{}", encoding="utf-8")
    assert not is_adapter("base")  # a folder of both is read as a model


def test_weights_that_are_given_are_saved_in_place_of_the_trained_ones(tmp_path: Path) -> None:
    model = taught("vidya-v2", tmp_path)
    save(model, tmp_path / "twice", tmp_path / "base", {name: 2 * array for name, array in trained(model).items()})
    before, after = (read_tensors(tmp_path / name / WEIGHTS) for name in ("adapter", "twice"))
    assert before.keys() == after.keys()
    assert all((after[name] == 2 * array).all() for name, array in before.items() if "lora" in name)
    plain = models.load(tmp_path / "base")
    assert trained(plain).keys() == plain.state_dict().keys()


def test_the_factor_of_another_program_is_part_of_b(tmp_path: Path) -> None:
    model, folder = taught("vidya-v2", tmp_path), tmp_path / "adapter"
    arrays = read_tensors(folder / WEIGHTS)
    for changes, factor in (({"lora_alpha": 16}, 8), ({"lora_alpha": 4, "use_rslora": True}, 4 / math.sqrt(2))):
        rewrite(folder, **changes)
        smaller = {name: array / np.float32(factor) if "lora_B" in name else array for name, array in arrays.items()}
        save_tensors(folder / WEIGHTS, smaller)
        wanted = logits(model)
        np.testing.assert_allclose(logits(models.load(folder)), wanted, atol=1e-5 * np.abs(wanted).max())


def test_adapters_of_some_layers_are_loaded(tmp_path: Path) -> None:
    taught("vidya-v2", tmp_path)
    path = tmp_path / "adapter" / WEIGHTS
    save_tensors(path, {name: array for name, array in read_tensors(path).items() if "k_proj" not in name})
    assert not np.allclose(logits(models.load(tmp_path / "adapter")), logits(models.load(tmp_path / "base")))


def test_rows_of_tokens_are_loaded_in_each_of_their_forms(tmp_path: Path) -> None:
    """PEFT lists tokens by table or, of the embedding, alone; a head of its own has rows of its own."""
    for is_tied in (True, False):
        wanted, folder = logits(taught("vidya-v2", tmp_path, tied_head=is_tied)), tmp_path / "adapter"
        forms: list[Any] = [{"embed_tokens": [1, 4], "lm_head": [1, 4]}, {"model.embed_tokens": [1, 4]}, [1, 4]]
        for form in forms if is_tied else forms[:1]:
            rewrite(folder, trainable_token_indices=form)
            np.testing.assert_allclose(logits(models.load(folder)), wanted, atol=1e-5 * np.abs(wanted).max())
    near = logits(models.load(tmp_path / "adapter", quantize="int8"))
    assert np.abs(near - wanted).max() < 0.1 * np.abs(wanted).max()


def test_the_rows_of_a_head_of_its_own_are_beside_the_prefix_of_gpt2(tmp_path: Path) -> None:
    wanted, folder = logits(taught("gpt2", tmp_path, tied_head=False)), tmp_path / "adapter"
    rows = {name for name in read_tensors(folder / WEIGHTS) if "token_adapter" in name}
    start, end = "base_model.model.", ".token_adapter.trainable_tokens_delta"
    assert rows == {f"{start}transformer.wte{end}", f"{start}lm_head{end}"}
    np.testing.assert_allclose(logits(models.load(folder)), wanted, atol=1e-5 * np.abs(wanted).max())


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    taught("vidya-v2", tmp_path)
    folder = tmp_path / "adapter"

    def refused(**changes: Any) -> str:
        before = (folder / ADAPTERS).read_text(encoding="utf-8")
        rewrite(folder, **changes)
        with pytest.raises(InputError) as caught:
            models.load(folder)
        (folder / ADAPTERS).write_text(before, encoding="utf-8")
        return str(caught.value)

    wider, deeper = tmp_path / "wider", tmp_path / "shallow"
    build("vidya-v2", width=16).save(wider)
    build("vidya-v2", num_layers=1).save(deeper)
    assert "are adapters of a model of another shape" in refused(base_model_name_or_path=str(wider))
    assert "adapters of model.layers.1." in refused(base_model_name_or_path=str(deeper))
    assert "adapters of the model runs/gone, which is not a folder" in refused(base_model_name_or_path="runs/gone")
    assert "of another shape" in refused(r=3)
    assert "the model has tokens from 0 to 12" in refused(trainable_token_indices={"embed_tokens": [1, 13]})
    assert "names the table 'wte'; the model has model.embed_tokens" in refused(trainable_token_indices={"wte": [1, 4]})
    assert "the model has tokens from 0 to 12" in refused(trainable_token_indices=7)
    assert "of another shape" in refused(trainable_token_indices={"embed_tokens": [1, 4, 5]})
    assert "of another shape" in refused(trainable_token_indices=None)
    assert "peft_type = 'LOHA'; only 'LORA'" in refused(peft_type="LOHA")
    assert "has rank_pattern" in refused(rank_pattern={"q_proj": 4})
    assert "is damaged: r takes a whole number of at least 1, not 0" in refused(r=0)
    assert "each to be listed once" in refused(trainable_token_indices={"embed_tokens": [1, 1]})
    assert "each to be listed once" in refused(trainable_token_indices={"embed_tokens": [True, 4]})
    assert "the model has tokens from 0 to 12" in refused(trainable_token_indices={"embed_tokens": [1, -1]})
    assert "lora_alpha takes a finite number above 0 and at most 1,000,000" in refused(lora_alpha=1e300)


@pytest.mark.parametrize(
    ("name", "values", "known"),
    [
        (
            "init_lora_weights",
            ["pissa", "pissa_niter_4", "olora", "corda", "loftq", []],
            [True, False, None, "gaussian"],
        ),
        ("layer_replication", [[[0, 1]]], [None, []]),
        ("alora_invocation_tokens", [[3]], [None]),
        ("use_qalora", [True], [False]),
        ("lora_bias", [True], [False]),
        ("modules_to_save", [["lm_head"]], [None]),
    ],
)
def test_adapters_that_would_change_the_base_in_another_way_are_refused(
    name: str, values: list[Any], known: list[Any], tmp_path: Path
) -> None:
    taught("vidya-v2", tmp_path)
    for value in values:
        rewrite(tmp_path / "adapter", **{name: value})
        with pytest.raises(
            InputError, match=rf"has {name} = .*, which is not read here: .*; merge them in the program"
        ):
            models.load(tmp_path / "adapter")
    for value in known:
        rewrite(tmp_path / "adapter", **{name: value})
        models.load(tmp_path / "adapter")


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_quantised_model_with_adapters_is_saved_with_its_rows_of_tokens(is_tied: bool, tmp_path: Path) -> None:
    taught("vidya-v2", tmp_path, tied_head=is_tied)
    model = models.load(tmp_path / "adapter", quantize="int8")
    wanted, folder = logits(model), tmp_path / "again"
    save(model, folder, base=tmp_path / "base")
    before, after = (read_tensors(place / WEIGHTS) for place in (tmp_path / "adapter", folder))
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    np.testing.assert_array_equal(logits(models.load(folder, quantize="int8")), wanted)


@pytest.mark.parametrize("table", ["model.embed_tokens.lora_embedding_A", "lm_head.lora_A.weight"])
def test_adapters_of_a_table_are_refused(table: str, tmp_path: Path) -> None:
    taught("vidya-v2", tmp_path, tied_head=False)
    path = tmp_path / "adapter" / WEIGHTS
    save_tensors(path, read_tensors(path) | {f"base_model.model.{table}": np.ones((2, 12), np.float32)})
    name = table.split(".lora")[0]
    with pytest.raises(InputError, match=rf"of {name}, which is not a linear layer of this model: such .* not read"):
        models.load(tmp_path / "adapter")


def test_adapters_of_adapters_are_added_to_both(tmp_path: Path) -> None:
    taught("vidya-v2", tmp_path)
    second = models.load(tmp_path / "adapter")
    adapt(second, 2)
    rng = np.random.default_rng(1)
    for name, parameter in second.named_parameters():
        if "lora_B" in name:
            parameter.data = rng.normal(size=parameter.shape)
    save(second, tmp_path / "second", base=tmp_path / "adapter")
    assert base_of(tmp_path / "second") == tmp_path / "adapter"
    assert model_below(tmp_path / "second") == tmp_path / "base"
    wanted = logits(second)
    np.testing.assert_allclose(logits(models.load(tmp_path / "second")), wanted, atol=1e-5 * np.abs(wanted).max())
    with pytest.raises(InputError, match=r"adapters of adapters .*merge"):
        models.load(tmp_path / "second", quantize="int8")


@needs_limits
def test_a_full_disk_leaves_no_new_config_beside_old_adapters(tmp_path: Path) -> None:
    taught("vidya-v2", tmp_path)
    folder, larger = tmp_path / "adapter", models.load(tmp_path / "base")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    adapt(larger, 8)
    with files_up_to(len(before[WEIGHTS])), pytest.raises(RunError, match=r"cannot write .*: File too large"):
        save(larger, folder, base=tmp_path / "base")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_adapters_that_are_their_own_base_are_refused(tmp_path: Path) -> None:
    taught("vidya-v2", tmp_path)
    rewrite(tmp_path / "adapter", base_model_name_or_path=str(tmp_path / "adapter"))
    with pytest.raises(InputError, match="which in the end has itself"):
        models.load(tmp_path / "adapter")


def test_adapters_do_not_grow(tmp_path: Path) -> None:
    taught("vidya-v2", tmp_path)
    with pytest.raises(InputError, match=r"merge them before the model grows: models.load\("):
        models.grow(tmp_path / "adapter", width=48)


@pytest.mark.parametrize("family", ["wiola", "gpt2"])
def test_a_run_begins_from_adapters_of_any_family(family: str, tmp_path: Path) -> None:
    wanted = logits(taught(family, tmp_path))
    model = models.load(tmp_path / "base")
    models.initial_weights_for(model, tmp_path / "adapter").fill(model)
    np.testing.assert_allclose(logits(model), wanted, atol=1e-5 * np.abs(wanted).max())


def test_the_tokens_that_end_an_answer_are_kept_beside_the_adapters(tmp_path: Path) -> None:
    model = taught("vidya-v2", tmp_path)
    assert models.load(tmp_path / "adapter").end_ids == ()
    model.end_ids = (4,)
    save(model, tmp_path / "chat", base=tmp_path / "base")
    models.load(tmp_path / "chat").save(tmp_path / "merged")
    assert models.load(tmp_path / "merged").end_ids == models.load(tmp_path / "chat").end_ids == (0, 4)


def test_adapters_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    taught("vidya-v2", tmp_path)
    path = tmp_path / "adapter" / WEIGHTS
    arrays = read_tensors(path)
    name = min(arrays)
    save_tensors(path, arrays | {name: np.full_like(arrays[name], np.nan)})
    with pytest.raises(InputError, match=r"is damaged: .* has elements that are not finite"):
        models.load(tmp_path / "adapter")


def test_adapters_are_not_saved_into_the_folder_of_a_model(tmp_path: Path) -> None:
    model = build("vidya-v2")
    model.save(tmp_path / "model")
    adapt(model, 2)
    with pytest.raises(InputError, match=r"holds a model, so adapters in it would not be found"):
        save(model, tmp_path / "model", tmp_path / "model")
