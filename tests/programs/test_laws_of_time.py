"""The clock chooses integers only: a run of --minutes is repeated by the command of --steps that it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minigrad.training.folder import metrics
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.run import Run
from minigrad.training.settings import TrainConfig
from tests.killed_runs import Killed, kill, killed_at, repeat
from tests.small_runs import outcome, record, settings
from train import train


class Clock:
    """A clock that advances 40 ms each time it is read, so that runs on it repeat exactly."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks / 25


class SlowingClock(Clock):
    """A clock on which everything takes three times as long after six seconds."""

    def __call__(self) -> float:
        time = super().__call__()
        return time if time < 6 else 3 * time - 12


def test_a_clock_chooses_the_number_of_steps_and_the_printed_command_repeats_the_run(monkeypatch, text, tmp_path):
    fixed: list[dict[str, Any]] = []
    choose_steps = Run.choose_steps

    def choose_and_look(self: Run) -> bool:
        if chosen := choose_steps(self):
            fixed.append({"at": self.step, **record(self.folder.path)["chosen"]})
        return chosen

    monkeypatch.setattr(Run, "choose_steps", choose_and_look)
    result = train(settings(text, tmp_path / "run", minutes=0.12, dropout=0.2, accumulate=2), clock=Clock())
    assert result is not None
    # Each choice was stored in minigrad.json before any step that depends on it.
    assert fixed[-1]["steps"] == result.steps > fixed[0]["decay_start"] >= fixed[0]["at"] > 1
    assert all(choice["steps"] > choice["at"] for choice in fixed)
    again = repeat(result.command, tmp_path)
    assert again == Path(f"{result.out}-again")
    assert outcome(again) == outcome(result.out)
    assert [line["learning_rate"] for line in metrics.read(again)] == [
        line["learning_rate"] for line in metrics.read(result.out)
    ]


@pytest.mark.parametrize("killed", [False, True])
def test_a_decay_that_was_corrected_is_repeated_by_the_printed_command(monkeypatch, text, tmp_path, killed):
    config = settings(text, tmp_path / "run", minutes=0.14, warmup=3, save_every=2)
    if killed:  # directly after the correction was written down
        with monkeypatch.context() as patch:
            fix_steps = RunFolder.fix_steps
            patch.setattr(RunFolder, "fix_steps", lambda *given: (fix_steps(*given), len(given[1]) > 1 and kill()))
            with pytest.raises(Killed):
                train(config, clock=SlowingClock())
        result = train(TrainConfig(resume=str(tmp_path / "run")), clock=SlowingClock())
    else:
        result = train(config, clock=SlowingClock())
    assert result is not None
    assert "--decay " in result.command
    assert f":{result.steps} " in result.command
    assert outcome(repeat(result.command, tmp_path)) == outcome(result.out)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_on_a_clock_killed_around_the_choice_repeats_all_the_same(monkeypatch, text, tmp_path, when):
    config = settings(text, tmp_path / "run", minutes=0.12, warmup=3)
    if when == "before":
        killed_at(monkeypatch, 7, config, clock=Clock())
        assert "steps" not in record(tmp_path / "run")["chosen"]
    else:
        with monkeypatch.context() as patch:
            fix_steps = RunFolder.fix_steps
            patch.setattr(RunFolder, "fix_steps", lambda *given: (fix_steps(*given), kill()))
            with pytest.raises(Killed):
                train(config, clock=Clock())
        start = record(tmp_path / "run")["chosen"]["decay_start"]
    result = train(TrainConfig(resume=str(tmp_path / "run")), clock=Clock())
    assert result is not None
    if when == "after":
        assert record(tmp_path / "run")["chosen"]["decay_start"] == start
    assert outcome(repeat(result.command, tmp_path)) == outcome(result.out)


def test_more_minutes_take_more_steps_also_after_the_end(text, tmp_path):
    result = train(settings(text, tmp_path / "run", minutes=0.12), clock=Clock())
    assert result is not None
    longer = train(TrainConfig(resume=str(tmp_path / "run"), minutes=0.15), clock=Clock())
    assert longer is not None
    assert longer.steps > result.steps
    assert outcome(repeat(longer.command, tmp_path)) == outcome(tmp_path / "run")


def test_a_budget_shorter_than_a_run_can_be_still_ends_with_a_report(text, tmp_path):
    result = train(settings(text, tmp_path / "run", minutes=0.001), clock=Clock())
    assert result is not None
    assert result.steps == 2
    assert (tmp_path / "run" / "report.html").exists()
