"""The exactness laws: a run is a function of its settings, however often it was stopped on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import train as train_program
from minigrad.errors import InputError
from minigrad.system import terminal
from minigrad.training.folder import metrics
from minigrad.training.settings import TrainConfig
from tests.command_words import command_words
from tests.killed_runs import kill, killed_at, repeat, stop
from tests.small_runs import outcome, record, run, settings, timeless
from train import Stopped, TrainResult, train

ROOT = Path(__file__).parents[2]
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # os.kill ends a process of Windows at once, whatever it is given


HARD = {"dropout": 0.2, "accumulate": 2}


@pytest.fixture(scope="module")
def whole(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 30 steps with dropout and accumulation that was never stopped."""
    return run(text, tmp_path_factory.mktemp("whole") / "run", **HARD).out


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


def test_windows_that_cross_documents_continue_exactly_also_in_a_run_from_before_there_was_a_choice(
    monkeypatch, text, whole, tmp_path
):
    windows = {**HARD, "documents": "windows"}
    run(text, tmp_path / "whole", **windows)
    assert timeless(tmp_path / "whole")[0] != timeless(whole)[0]
    killed_at(monkeypatch, 17, settings(text, tmp_path / "run", **windows))
    written = record(tmp_path / "run")
    del written["settings"]["documents"], written["settings"]["optimizer"], written["chosen"]["optimizer"]
    (tmp_path / "run" / "minigrad.json").write_text(json.dumps(written), encoding="utf-8")
    resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_run_may_be_killed_again_and_again(monkeypatch, text, whole, tmp_path):
    killed_at(monkeypatch, 8, settings(text, tmp_path / "run", **HARD))
    for step in (9, 12, 23):
        killed_at(monkeypatch, step, TrainConfig(resume=str(tmp_path / "run")))
    resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(whole)


def test_a_real_kill_while_the_checkpoint_of_step_15_is_written(text, whole, tmp_path):
    script = (
        "import os, signal, sys; from minigrad.training import keeping; from train import main; save = keeping.save\n"
        "from models import vidya_v2; from tests.small_runs import TINY; vidya_v2.SIZES['nano'] = TINY\n"
        "def save_and_die(run, **how):\n"
        "    save(run, **how)\n"
        f"    if run.step == 15: os.kill(os.getpid(), {int(KILL)})\n"
        "keeping.save = save_and_die; main(sys.argv[1:])"
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
    assert "ended after 4 steps; a larger --steps" in " ".join(capsys.readouterr().out.split())
    assert (again.command, again.loss, again.val_loss) == (first.command, first.loss, first.val_loss)


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


def test_a_run_whose_context_adapts_continues_exactly(monkeypatch, text, tmp_path):
    monkeypatch.setattr("minigrad.training.guests.STEPS_BETWEEN", 2)
    monkeypatch.setattr("minigrad.adaptive.context.GROW_ABOVE", 0.001)
    adaptive = {"adaptive_context": True, "batch": 8, "context": 32, "threads": 2, "log_every": 3}  # two replicas
    whole = run(text, tmp_path / "whole", **adaptive).out
    lines = timeless(whole)
    assert len({line["context"] for line in lines}) > 2
    assert [each["place"] for line in lines for each in line.get("decisions", [])] == list(range(2, 30, 2))
    killed_at(monkeypatch, 12, settings(text, tmp_path / "run", **adaptive))
    killed_at(monkeypatch, 23, TrainConfig(resume=str(tmp_path / "run")))
    resume(tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(whole)
