"""The exactness laws: a run is a function of its settings, however often it was stopped on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import train as train_program
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.system import terminal
from minigrad.training import metrics
from minigrad.training.run import Run
from minigrad.training.settings import TrainConfig
from tests.command_words import command_words
from tests.small_runs import outcome, record, run, settings, timeless
from train import Stopped, TrainResult, train

ROOT = Path(__file__).parents[2]
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # os.kill ends a process of Windows at once, whatever it is given


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the program expects it."""


class Clock:
    """A clock that advances 40 ms each time it is read, so that runs on it repeat exactly."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks / 25


HARD = {"dropout": 0.2, "accumulate": 2}


@pytest.fixture(scope="module")
def whole(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 30 steps with dropout and accumulation that was never stopped."""
    return run(text, tmp_path_factory.mktemp("whole") / "run", **HARD).out


def stop(monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], Any]) -> None:
    """Do `act` directly before step number `step` (0-based) is taken."""
    take_step = train_program.take_step

    def take_or_act(self: Run) -> tuple[float, float]:
        if self.step == step:
            monkeypatch.setattr(train_program, "take_step", take_step)
            act()
        return take_step(self)

    monkeypatch.setattr(train_program, "take_step", take_or_act)


def kill() -> None:
    raise Killed


def killed_at(monkeypatch: pytest.MonkeyPatch, step: int, config: TrainConfig, **options: Any) -> None:
    stop(monkeypatch, step, kill)
    with pytest.raises(Killed):
        train(config, **options)


def resume(folder: Path, **changes: Any) -> TrainResult:
    result = train(TrainConfig(resume=str(folder), **changes))
    assert result is not None
    return result


def test_equal_settings_give_equal_runs_and_another_seed_another(text, whole, tmp_path):
    run(text, tmp_path / "same", **HARD)
    assert outcome(tmp_path / "same") == outcome(whole)
    run(text, tmp_path / "other", **HARD, seed=4, steps=2)
    assert timeless(tmp_path / "other")[0] != timeless(whole)[0]


@pytest.mark.parametrize("step", [0, 3, 5, 17, 29])
def test_a_killed_run_continues_as_if_it_had_never_stopped(monkeypatch, text, whole, tmp_path, step):
    killed_at(monkeypatch, step, settings(text, tmp_path / "run", **HARD))
    resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(whole)


def test_a_run_may_be_killed_again_and_again(monkeypatch, text, whole, tmp_path):
    killed_at(monkeypatch, 8, settings(text, tmp_path / "run", **HARD))
    for step in (9, 12, 23):
        killed_at(monkeypatch, step, TrainConfig(resume=str(tmp_path / "run")))
    resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(whole)


def test_a_real_kill_after_the_checkpoint_of_step_15(text, whole, tmp_path):
    script = (
        "import os, signal, sys; from minigrad.training.run import Run; from train import main; save = Run.save\n"
        "from models import vidya_v2; from tests.small_runs import TINY; vidya_v2.SIZES['nano'] = TINY\n"
        "def save_and_die(run):\n"
        "    save(run)\n"
        f"    if run.step == 15: os.kill(os.getpid(), {int(KILL)})\n"
        "Run.save = save_and_die; main(sys.argv[1:])"
    )
    config = settings(text, tmp_path / "run", **HARD)
    flags = ["--size", "nano", "--data", str(text), "--out", str(tmp_path / "run"), "--dropout", "0.2"]
    for name in ("vocab", "batch", "context", "threads", "seed", "steps", "accumulate"):
        flags += [f"--{name}", str(getattr(config, name))]
    for name in ("log", "eval", "save", "sample"):
        flags += [f"--{name}-every", str(getattr(config, f"{name}_every"))]
    done = subprocess.run([sys.executable, "-c", script, *flags], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == (KILL if os.name == "nt" else -KILL), done.stderr
    assert not (tmp_path / "run" / "report.html").exists()
    resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(whole)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_is_saved_after_the_step_and_continues_exactly(monkeypatch, text, whole, tmp_path, number, code):
    stop(monkeypatch, 12, lambda: signal.raise_signal(number))
    with pytest.raises(Stopped) as stopped:
        train(settings(text, tmp_path / "run", **HARD))
    assert stopped.value.code == code
    again = terminal.command("train.py", "--resume", tmp_path / "run")
    assert str(stopped.value) == f"stopped after step 13 and saved; continue with: {again}"
    assert outcome(tmp_path / "run")["step"] == 13
    resume(tmp_path / "run")
    assert {**outcome(tmp_path / "run"), "metrics": None} == {**outcome(whole), "metrics": None}
    assert timeless(tmp_path / "run") == timeless(whole)


def test_a_finished_run_is_reported_again_and_not_trained(monkeypatch, text, tmp_path, capsys):
    first = run(text, tmp_path / "run", steps=4)
    before = outcome(tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    monkeypatch.setattr(train_program, "take_step", lambda self: pytest.fail("a step was taken"))
    again = resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == before
    assert (tmp_path / "run" / "report.html").exists()
    assert "all 4 steps are done; a larger --steps" in " ".join(capsys.readouterr().out.split())
    assert (again.command, again.loss, again.val_loss) == (first.command, first.loss, first.val_loss)


def repeat(command: str, root: Path) -> Path:
    """Run a printed command, its parts one after the other, and return the folder it wrote."""
    parser = Parser(TrainConfig, prog="train.py", description="")
    folder = root
    for part in command.split(" && "):
        words = command_words(part)
        assert words[:2] == command_words(terminal.command("train.py"))
        config, explicit = parser.read(words[2:])
        folder = Path(config.out or config.resume or "")
        assert train(config, explicit=explicit) is not None
    return folder


def test_a_larger_limit_continues_and_a_repeated_run_of_that_length_is_the_same(monkeypatch, text, tmp_path):
    killed_at(monkeypatch, 17, settings(text, tmp_path / "run", steps=30, warmup=4))
    result = resume(tmp_path / "run", steps=40)
    assert result.steps == 40
    run(text, tmp_path / "whole", steps=40, warmup=4)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
    assert outcome(repeat(result.command, tmp_path)) == outcome(tmp_path / "whole")


def test_an_extension_survives_a_kill(monkeypatch, text, tmp_path):
    killed_at(monkeypatch, 12, settings(text, tmp_path / "run", steps=20))
    killed_at(monkeypatch, 14, TrainConfig(resume=str(tmp_path / "run"), steps=30))
    assert resume(tmp_path / "run").steps == 30


def test_a_finished_run_can_be_extended_and_its_command_has_a_part_for_each_stage(text, tmp_path):
    run(text, tmp_path / "run", steps=10)
    result = resume(tmp_path / "run", steps=16)
    assert result.steps == 16
    assert result.command.count(" && ") == 1
    assert outcome(repeat(result.command, tmp_path)) == outcome(tmp_path / "run")


def test_a_run_whose_learning_rate_decays_is_finished_before_it_is_extended(monkeypatch, text, tmp_path):
    killed_at(monkeypatch, 9, settings(text, tmp_path / "run", steps=10, save_every=9))
    stop(monkeypatch, 9, kill)
    with pytest.raises(InputError, match=r"step 9 of 10, and its learning rate has begun to decay\. Finish it first"):
        resume(tmp_path / "run", steps=20)


def test_tokens_become_steps_and_can_be_raised(text, tmp_path):
    result = run(text, tmp_path / "run", tokens=100)
    assert (result.steps, result.tokens) == (4, 128)
    assert record(tmp_path / "run")["chosen"]["steps"] == 4
    assert resume(tmp_path / "run", tokens=300).steps == 10


def test_a_clock_chooses_the_number_of_steps_and_the_printed_command_repeats_the_run(monkeypatch, text, tmp_path):
    fixed: list[dict[str, Any]] = []
    fix_steps = Run.fix_steps

    def fix_and_look(self: Run) -> None:
        fix_steps(self)
        fixed.append({"at": self.step, **record(self.folder.path)["chosen"]})

    monkeypatch.setattr(Run, "fix_steps", fix_and_look)
    result = train(settings(text, tmp_path / "run", minutes=0.12, **HARD), clock=Clock())
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


class SlowingClock(Clock):
    """A clock on which everything takes three times as long after six seconds."""

    def __call__(self) -> float:
        time = super().__call__()
        return time if time < 6 else 3 * time - 12


@pytest.mark.parametrize("killed", [False, True])
def test_a_decay_that_was_corrected_is_repeated_by_the_printed_command(monkeypatch, text, tmp_path, killed):
    config = settings(text, tmp_path / "run", minutes=0.14, warmup=3, save_every=2)
    if killed:  # directly after the correction was written down
        with monkeypatch.context() as patch:
            fix_steps = Run.fix_steps
            patch.setattr(Run, "fix_steps", lambda self: (fix_steps(self), len(self.budget.decay) > 1 and kill()))
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
            fix_steps = Run.fix_steps
            patch.setattr(Run, "fix_steps", lambda self: (fix_steps(self), kill()))
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


def test_two_parts_of_four_sequences_learn_what_one_part_of_eight_learns(text, tmp_path):
    """Data order and dropout are functions of the position in the run, so only the order of sums differs."""
    for name, split in (("parts", {"batch": 4, "accumulate": 2}), ("whole", {"batch": 8})):
        run(text, tmp_path / name, steps=3, precision="float64", dropout=0.2, **split)
    parts, whole = (metrics.read(tmp_path / name) for name in ("parts", "whole"))
    for name in ("loss", "gradient_norm", "bits_per_byte"):
        np.testing.assert_allclose([line[name] for line in parts], [line[name] for line in whole], rtol=1e-10)


def test_the_command_line_runs_the_same_training(text, whole, tmp_path, capsys):
    command = str(record(whole)["result"]["command"])
    flags = [word.replace(f"{whole}-again", str(tmp_path / "run")) for word in command_words(command)[2:]]
    assert train_program.main(flags) == 0
    assert outcome(tmp_path / "run") == outcome(whole)
