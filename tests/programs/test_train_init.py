"""`train.py --init`: a run that starts from the weights of another one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import tokenizer
import train as train_program
from minigrad.formats.json_files import write_json
from minigrad.formats.safetensors import save_tensors
from minigrad.formats.weights import read_weights
from tests.command_words import command_words
from tests.small_runs import flags, outcome, record, refusal, run, settings


@pytest.fixture
def start_from(text: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Give the flags of a run of one step in `tmp_path / "new"` that starts from the weights of a folder."""

    def start_from(folder: Path, **changes: Any) -> list[str]:
        return flags(settings(text, tmp_path / "new", init=str(folder), vocab=None, steps=1, **changes))

    return start_from


@pytest.mark.parametrize("plan", [True, False])
def test_a_start_of_another_size_or_family_or_too_long_a_context_is_refused(
    capsys, finished, tmp_path, start_from, plan
):
    for changes, message in (
        (
            {"size": "micro"},
            f"{finished} holds a vidya-v2 nano, but --size micro was given: a model grows in width only: num_layers is "
            "2, but the wanted size has 10. A larger width works: --set width=64",
        ),
        ({"model": "gpt2"}, f"{finished} holds a model of vidya-v2, but --model gpt2 was given"),
        ({"context": 2_049}, "--context 2049 is longer than the model's context of 2048; take at most 2048"),
    ):
        assert refusal(capsys, *start_from(finished, plan=plan, **changes)) == message
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("plan", [True, False])
def test_weights_that_do_not_fit_their_own_config_cannot_be_the_start(capsys, copy, tmp_path, start_from, plan):
    save_tensors(copy / "model.safetensors", {"other": np.zeros(3, np.float32)})
    assert "the weights do not fit the model" in refusal(capsys, *start_from(copy, plan=plan))
    assert not (tmp_path / "new").exists()


def test_a_tokenizer_with_more_tokens_than_the_start_knows_is_refused(capsys, finished, tmp_path, start_from):
    tokenizer.train([], vocab_size=301).save(tmp_path / "large.json")
    error = refusal(capsys, *start_from(finished, tokenizer=str(tmp_path / "large.json"), plan=True))
    assert "has 301 tokens, but the model in" in error
    assert "knows 300: they do not belong together" in error


def test_the_shape_of_the_start_is_kept_whatever_the_size_is_called(capsys, copy, tmp_path, start_from):
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    write_json(copy / "config.json", config | {"rope_theta": 50.0, "rms_norm_eps": 1e-3})
    assert "--size nano was given" in refusal(capsys, *start_from(copy))
    assert train_program.main(start_from(copy, size="auto", context=8, save_every=1, log_every=1)) == 0
    again = json.loads((tmp_path / "new" / "config.json").read_text(encoding="utf-8"))
    assert again == config | {"rope_theta": 50.0, "rms_norm_eps": 1e-3, "max_position_embeddings": 8}
    assert record(tmp_path / "new")["size"] == "custom"
    command = record(tmp_path / "new")["result"]["command"]
    assert train_program.main(command_words(command)[2:]) == 0
    assert outcome(tmp_path / "new-again")["published"] == outcome(tmp_path / "new")["published"]
    shutil.rmtree(copy)
    assert train_program.main(["--resume", str(tmp_path / "new"), "--steps", "2"]) == 0
    assert json.loads((tmp_path / "new" / "config.json").read_text(encoding="utf-8")) == again


def test_size_and_family_follow_from_the_start_and_the_context_may_be_longer(finished, tmp_path, start_from):
    assert train_program.main(start_from(finished, size="auto", context=64)) == 0
    assert json.loads((tmp_path / "new" / "config.json").read_text(encoding="utf-8"))["max_position_embeddings"] == 64
    assert (record(tmp_path / "new")["family"], record(tmp_path / "new")["size"]) == ("vidya-v2", "nano")


def test_training_can_start_from_the_weights_of_a_run(text, finished, tmp_path):
    changes = {"steps": 1, "init": str(finished), "vocab": None, "lr": 1e-12, "weight_decay": 0.0}
    run(text, tmp_path / "new", **changes)
    before, after = (read_weights(folder)["model.norm.weight"] for folder in (finished, tmp_path / "new"))
    np.testing.assert_allclose(after, before, atol=1e-9)
    assert (tmp_path / "new" / "tokenizer.json").read_text(encoding="utf-8") == (finished / "tokenizer.json").read_text(
        encoding="utf-8"
    )


def test_a_run_without_lessons_keeps_the_tokens_that_end_a_text_also_when_it_is_continued(copy, tmp_path, start_from):
    model = models.load(copy)
    model.end_ids = (4,)
    model.save(copy)
    for arguments in (start_from(copy), ["--resume", str(tmp_path / "new"), "--steps", "2"]):
        assert train_program.main(arguments) == 0
        assert models.load(tmp_path / "new").end_ids == (0, 4)


def test_another_tokenizer_with_as_many_tokens_is_refused(capsys, finished, tmp_path, start_from):
    """The weights know tokens by their numbers: with others a run would train, and end as it began."""
    tokenizer.train(["another text, of other words and of other pairs"] * 9, vocab_size=300).save(tmp_path / "x.json")
    error = refusal(capsys, *start_from(finished, tokenizer=str(tmp_path / "x.json"), plan=True))
    assert f"x.json is not the tokenizer of the model in --init {finished}" in error
    pairs = tokenizer.load(finished)
    (tmp_path / "copy").mkdir()
    for file in ("config.json", "model.safetensors"):
        shutil.copy(finished / file, tmp_path / "copy")
    pairs.save(tmp_path / "copy", format="gpt2")  # a vocab.json and a merges.txt
    error = refusal(capsys, *start_from(tmp_path / "copy", tokenizer=str(tmp_path / "x.json"), plan=True))
    assert f"x.json is not the tokenizer of the model in --init {tmp_path / 'copy'}" in error
    shutil.copy(finished / "tokenizer.json", tmp_path / "same.json")
    assert train_program.main(start_from(finished, tokenizer=str(tmp_path / "same.json"))) == 0
