"""A run whose files are removed while it trains ends, or can be continued: it promises nothing that is not true."""

from __future__ import annotations

import os
import shutil

import pytest

import train as train_program
from minigrad.kernels.gemm import backend
from minigrad.training.folder.opening import open_run
from minigrad.training.preparation import plan_run
from minigrad.training.run import Run
from minigrad.training.settings import TrainConfig
from tests.killed_runs import Killed, kill, killed_at, stop
from tests.small_runs import flags, refusal, run, settings


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no open file")
@pytest.mark.parametrize("every", [{}, {"log_every": 40, "eval_every": 40}])
def test_a_run_whose_folder_is_removed_ends_and_promises_nothing(capsys, monkeypatch, text, tmp_path, every):
    end_step = Run.end_step

    def remove_after(self: Run, norm: float) -> None:
        end_step(self, norm)
        if self.step == 7:
            self.writer.wait()
            shutil.rmtree(self.folder.path)

    monkeypatch.setattr(Run, "end_step", remove_after)
    error = refusal(capsys, *flags(settings(text, tmp_path / "run", **every)), code=1)
    assert error == f"{tmp_path / 'run'} was removed while this process was writing into it; nothing more is written"
    assert not (tmp_path / "run").exists()


def test_a_run_whose_record_is_removed_can_be_continued_all_the_same(monkeypatch, text, tmp_path):
    end_step = Run.end_step

    def remove_after(self: Run, norm: float) -> None:
        end_step(self, norm)
        if self.step == 7:
            self.writer.wait()
            for path in self.folder.path.glob("*.json"):
                path.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(Run, "end_step", remove_after)
        run(text, tmp_path / "run", steps=10)
    assert train_program.main(["--resume", str(tmp_path / "run"), "--steps", "12"]) == 0


def test_a_run_whose_metrics_are_removed_says_what_is_lost_and_counts_its_time_all_the_same(
    capsys, monkeypatch, text, tmp_path
):
    killed_at(monkeypatch, 7, settings(text, tmp_path / "run", minutes=5.0), clock=lambda: 60.0)
    (tmp_path / "run" / "metrics.jsonl").unlink()
    capsys.readouterr()
    assert train_program.main(["--resume", str(tmp_path / "run"), "--plan"]) == 0
    assert "length      5m 00s (5 steps done): about " in capsys.readouterr().out
    with backend.own_choice():
        prepared = plan_run(open_run(TrainConfig(resume=str(tmp_path / "run"))))
    assert prepared.plan.used == 60
    stop(monkeypatch, 5, kill)
    with pytest.raises(Killed):
        train_program.train(TrainConfig(resume=str(tmp_path / "run")))
    lost = "continuing after step 5; metrics.jsonl has no line, so the curve before that is gone\n"
    assert lost in capsys.readouterr().out


def test_an_ended_run_without_its_checkpoints_is_not_trained_again_from_the_start(capsys, text, tmp_path):
    """Its weights and its log would be replaced by those of a new run."""
    out = tmp_path / "run"
    run(text, out, steps=6)
    shutil.rmtree(out / "checkpoints")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    for more in ([], ["--steps", "9"]):
        error = refusal(capsys, "--resume", str(out), *more)
        assert error == (
            f"{out} has ended, and its checkpoints are gone, so it cannot continue; a new run begins "
            f"from its weights with --init {out}"
        )
    assert {path: path.read_bytes() for path in before} == before
