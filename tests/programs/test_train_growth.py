"""A run that starts from a narrower one: its weights and moments, its settings, and that it can be stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import train as train_program
from minigrad.errors import InputError
from minigrad.training.folder import checkpoint
from minigrad.training.run import Run
from minigrad.training.settings import TrainConfig
from models import vidya_v2
from tests.command_words import command_words
from tests.small_runs import TINY, outcome, quick_runs, record, run, settings

WIDE = replace(TINY, width=48, num_heads=6, num_kv_heads=2, feed_forward=96)
SAID = (
    "grows, and computes the same function as before: "
    "width 32 to 48, num_heads 3 to 6, num_kv_heads 1 to 2, feed_forward 64 to"
)


@pytest.fixture(autouse=True, scope="module")
def _quickly() -> Iterator[None]:
    with quick_runs(), pytest.MonkeyPatch.context() as patch:
        patch.setitem(vidya_v2.SIZES, "micro", WIDE)
        yield


@pytest.fixture(scope="module")
def narrow(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(text, tmp_path_factory.mktemp("narrow") / "run", steps=12).out


def growing(text: Path, narrow: Path, out: Path, **changes: Any) -> TrainConfig:
    return settings(text, out, **({"size": "micro", "init": str(narrow), "vocab": None, "dropout": 0.2} | changes))


def grown(text: Path, narrow: Path, out: Path, **changes: Any) -> Path:
    result = train_program.train(growing(text, narrow, out, **changes))
    assert result is not None
    return result.out


def test_a_run_grows_with_its_moments_and_says_so(capsys, text, narrow, tmp_path):
    folder = grown(text, narrow, tmp_path / "wide", steps=1, lr=1e-12, weight_decay=0.0)
    assert f"{narrow} {SAID} 96\n" in capsys.readouterr().out
    assert (record(folder)["size"], record(folder)["family"]) == ("micro", "vidya-v2")
    ids = np.random.default_rng(0).integers(0, 300, (2, 16))
    before, after = models.load(narrow)(ids).data, models.load(folder)(ids).data
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5 * np.abs(before).max())
    old, new = checkpoint.load(narrow), checkpoint.load(folder)
    assert (old.state["updates"], new.state["updates"]) == (12, 13)
    for name, moment in old.moments.items():
        if name.endswith(".v"):  # an update keeps 0.95 of it, and adds a square
            corner = new.moments[name][tuple(slice(length) for length in moment.shape)]
            ratio = 32 / 48 if moment.ndim == 1 else 1.0
            assert (corner >= 0.9499 * moment / ratio).all(), name
            assert moment.any(), name


def test_a_narrow_run_without_checkpoints_grows_with_fresh_moments(text, narrow, tmp_path):
    models.load(narrow).save(tmp_path / "published")
    (tmp_path / "published" / "tokenizer.json").write_bytes((narrow / "tokenizer.json").read_bytes())
    folder = grown(text, tmp_path / "published", tmp_path / "wide", steps=2)
    assert checkpoint.load(folder).state["updates"] == 2


@pytest.mark.parametrize("step", [0, 3, 17])
def test_a_grown_run_continues_as_if_it_had_never_stopped(monkeypatch, text, narrow, tmp_path, step):
    whole = outcome(grown(text, narrow, tmp_path / "whole", steps=20))
    take_step = train_program.take_step

    def take_or_die(self: Run) -> tuple[float, float]:
        if self.step == step:
            raise KeyboardInterrupt
        return take_step(self)

    with monkeypatch.context() as patch:
        patch.setattr(train_program, "take_step", take_or_die)
        with pytest.raises(KeyboardInterrupt):
            train_program.train(growing(text, narrow, tmp_path / "run", steps=20))
    train_program.train(TrainConfig(resume=str(tmp_path / "run")))
    assert outcome(tmp_path / "run") == whole


@pytest.mark.parametrize("target", [{}, {"size": "auto", "set": "width=40"}])
def test_the_command_at_the_end_repeats_a_grown_run(text, narrow, tmp_path, target):
    folder = grown(text, narrow, tmp_path / "wide", steps=3, **target)
    assert train_program.main(command_words(record(folder)["result"]["command"])[2:]) == 0
    assert outcome(tmp_path / "wide-again") == outcome(folder)


def test_a_grown_run_grows_again_and_goes_on_with_fields_that_are_set(text, narrow, tmp_path, monkeypatch):
    folder = grown(text, narrow, tmp_path / "wide", steps=2)
    monkeypatch.setitem(vidya_v2.SIZES, "mini", replace(WIDE, width=64))
    stretch = "rope_scaling=yarn,rope_factor=4"
    again = grown(text, folder, tmp_path / "wider", steps=2, size="mini", set=stretch, context=64)
    described = json.loads((again / "config.json").read_text(encoding="utf-8"))
    assert (record(again)["size"], described["hidden_size"]) == ("mini", 64)
    assert described["rms_norm_eps"] == pytest.approx(1e-5 * 32 / 64)
    # The context is four times that of the run it starts from.
    assert described["rope_scaling"] == {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
    }
    assert described["max_position_embeddings"] == 64
    train_program.train(TrainConfig(resume=str(again), steps=4))
    assert checkpoint.load(again).state["updates"] == 12 + 2 + 4


def test_a_width_can_be_set_and_the_function_stays(capsys, text, narrow, tmp_path):
    with pytest.raises(InputError, match=r"grows \(width 32 to 40\) only with norm_eps 8.*e-06, not 1e-05"):
        grown(text, narrow, tmp_path / "wide", size="auto", set="width=40,norm_eps=1e-5")
    assert not (tmp_path / "wide").exists()
    folder = grown(text, narrow, tmp_path / "wide", size="auto", set="width=40", steps=1, lr=1e-12, weight_decay=0.0)
    assert "computes the same function as before: width 32 to 40\n" in capsys.readouterr().out
    ids = np.random.default_rng(0).integers(0, 300, (2, 16))
    before, after = models.load(narrow)(ids).data, models.load(folder)(ids).data
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5 * np.abs(before).max())


def test_a_plan_describes_the_growth(capsys, text, narrow, tmp_path):
    assert train_program.train(growing(text, narrow, tmp_path / "wide", plan=True)) is None
    said = capsys.readouterr().out
    assert SAID in said
    assert "vidya-v2 micro" in said
    assert not (tmp_path / "wide").exists()


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_a_run_trained_with_sgd_grows_without_moments(text: Path, tmp_path: Path, momentum: float) -> None:
    first = run(text, tmp_path / "first", steps=4, optimizer="sgd", momentum=momentum).out
    assert grown(text, first, tmp_path / "wide", steps=1, lr=1e-12).name == "wide"


def test_a_continued_run_keeps_its_shape_when_its_size_has_another_one(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(text, tmp_path / "run", steps=4).out
    size = record(folder)["size"]
    monkeypatch.setitem(vidya_v2.SIZES, size, WIDE)
    assert models.for_training("vidya-v2", size).config.width == 48
    assert train_program.train(TrainConfig(resume=str(folder), steps=6)) is not None
    assert record(folder)["result"]["steps"] == 6
    assert models.load(folder).config.width == 32
    # The command at the end repeats it with today's size.
    for words in record(folder)["result"]["command"].split(" && "):
        assert train_program.main(command_words(words)[2:]) == 0
    assert outcome(tmp_path / "run-again") == outcome(folder)
