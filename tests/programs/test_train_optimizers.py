"""Optimizers and schedules other than the default, as flags of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import train as train_program
from minigrad.errors import InputError
from minigrad.training import metrics
from minigrad.training.settings import TrainConfig
from tests.command_words import command_words
from tests.killed_runs import killed_at
from tests.small_runs import outcome, record, run, settings
from train import train

MUON: dict[str, Any] = {"optimizer": "muon", "schedule": "cosine", "steps": 12, "warmup": 2, "dropout": 0.2}


@pytest.fixture(scope="module")
def whole(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(text, tmp_path_factory.mktemp("muon") / "run", **MUON).out


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
    killed_at(monkeypatch, 7, settings(text, tmp_path / "run", **MUON))
    with pytest.raises(InputError, match=r"its learning rate has begun to decay\. Finish it first"):
        train(TrainConfig(resume=str(tmp_path / "run"), steps=20))
    assert train(TrainConfig(resume=str(tmp_path / "run"))) is not None
    assert outcome(tmp_path / "run") == outcome(whole)


def test_the_printed_command_names_both_and_repeats_the_run(whole: Path) -> None:
    command = str(record(whole)["result"]["command"])
    assert "--optimizer muon" in command
    assert "--schedule cosine" in command
    assert train_program.main(command_words(command)[2:]) == 0
    assert outcome(Path(f"{whole}-again")) == outcome(whole)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"minutes": 1.0}, "a cosine must know its last step: give --steps or --tokens"),
        ({"steps": 9, "decay": "5:9"}, "--decay is the end of --schedule wsd; a cosine has none"),
    ],
)
def test_a_cosine_without_an_end_or_with_two_is_refused(
    text: Path, tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train(settings(text, tmp_path / "run", schedule="cosine", **more))
