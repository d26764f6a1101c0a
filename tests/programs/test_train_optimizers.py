"""Optimizers, schedules, averages of the weights and experts, which are not the default, as flags of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import train as train_program
from minigrad.errors import InputError
from minigrad.training.folder import checkpoint, metrics
from minigrad.training.settings import TrainConfig
from tests.command_words import command_words
from tests.killed_runs import killed_at
from tests.small_runs import outcome, record, run, settings
from train import train

OTHER: dict[str, Any] = {"optimizer": "muon", "schedule": "cosine", "steps": 12, "warmup": 2, "dropout": 0.2}
OTHER |= {"beta1": 0.8, "beta2": 0.9, "ema": 0.7, "set": "experts=4,experts_per_token=2"}


@pytest.fixture(scope="module")
def whole(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(text, tmp_path_factory.mktemp("other") / "run", **OTHER).out


def test_the_learning_rate_rises_and_falls_as_a_cosine(whole: Path) -> None:
    lines = metrics.read(whole)
    rates = [line["learning_rate"] for line in lines]
    assert rates[1] == max(rates)
    assert rates[-1] == pytest.approx(0, abs=1e-9 * rates[1])
    assert rates[6] == pytest.approx(rates[1] / 2)  # half way between steps 2 and 12
    assert lines[-1]["loss"] < lines[0]["loss"] - 0.5


def test_a_killed_run_continues_exactly(
    monkeypatch: pytest.MonkeyPatch, text: Path, whole: Path, tmp_path: Path
) -> None:
    killed_at(monkeypatch, 7, settings(text, tmp_path / "run", **OTHER))
    with pytest.raises(InputError, match=r"its learning rate has begun to decay\. Finish it first"):
        train(TrainConfig(resume=str(tmp_path / "run"), steps=20))
    assert train(TrainConfig(resume=str(tmp_path / "run"))) is not None
    assert outcome(tmp_path / "run") == outcome(whole)


def test_the_model_of_the_run_is_the_average_and_its_load_is_logged(whole: Path) -> None:
    raw, written = checkpoint.load(whole), models.load(whole)
    assert written.config.experts == 4
    for name, parameter in written.named_parameters():
        assert np.array_equal(parameter.data, raw.moments[f"{name}.average"])
        assert (parameter.data != raw.weights[name]).any()
    loads = [metrics.read(whole)[-1][f"expert_load_{layer}"] for layer in range(written.config.num_layers)]
    assert [sum(load) for load in loads] == pytest.approx([1.0] * len(loads))
    assert "busiest expert" in (whole / "report.html").read_text(encoding="utf-8")


def test_the_printed_command_names_all_and_repeats_the_run(whole: Path) -> None:
    command = str(record(whole)["result"]["command"])
    for words in (
        "--optimizer muon",
        "--schedule cosine",
        "--beta1 0.8",
        "--beta2 0.9",
        "--ema 0.7",
        "--set experts=4,",
    ):
        assert words in command
    assert train_program.main(command_words(command)[2:]) == 0
    assert outcome(Path(f"{whole}-again")) == outcome(whole)


def test_sgd_learns_continues_exactly_and_is_named_in_the_command(
    monkeypatch: pytest.MonkeyPatch, text: Path, tmp_path: Path
) -> None:
    sgd: dict[str, Any] = {"optimizer": "sgd", "momentum": 0.8, "steps": 12, "lr": 0.3}
    whole = run(text, tmp_path / "whole", **sgd).out
    lines = metrics.read(whole)
    assert lines[-1]["loss"] < lines[0]["loss"] - 0.3
    killed_at(monkeypatch, 7, settings(text, tmp_path / "run", **sgd))
    assert train(TrainConfig(resume=str(tmp_path / "run"))) is not None
    assert outcome(tmp_path / "run") == outcome(whole)
    assert {name.rsplit(".", 1)[-1] for name in checkpoint.load(whole).moments} == {"velocity"}
    command = str(record(whole)["result"]["command"])
    for words in ("--optimizer sgd", "--weight-decay 0.0001", "--momentum 0.8"):
        assert words in command
