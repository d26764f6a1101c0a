"""`train.py --objective distill`: a new student learns from a trained model, and a killed run continues."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import models
from minigrad.training.settings import TrainConfig
from tests.killed_runs import killed_at
from tests.killed_runs import repeat as repeated
from tests.small_runs import flags, outcome, record, refusal, settings, timeless
from train import train


def distilling(text: Path, teacher: Path, out: Path, **changes: Any) -> TrainConfig:
    how = {"objective": "distill", "teacher": str(teacher), "vocab": None, "steps": 8, "batch": 4, "accumulate": 2}
    return settings(text, out, **how | changes)


def test_a_new_student_learns_and_a_killed_run_continues_bit_for_bit_and_its_command_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: Path, finished: Path, tmp_path: Path
) -> None:
    whole = train(distilling(text, finished, tmp_path / "whole"))
    assert whole is not None
    said = capsys.readouterr().out
    assert f"{finished}, " in said
    assert "KL(teacher, student) at temperature 1 is 0.5 of the loss" in " ".join(said.split())
    teacher = record(finished)["result"]["bits_per_byte"]
    assert record(tmp_path / "whole")["before"]["teacher_bits_per_byte"] == pytest.approx(teacher, rel=1e-6)
    assert (tmp_path / "whole" / "best" / "model.safetensors").exists()
    page = (tmp_path / "whole" / "report.html").read_text(encoding="utf-8")
    assert f"bits per byte, and its teacher {teacher:.3f} (lower is better)" in page
    killed_at(monkeypatch, 6, distilling(text, finished, tmp_path / "killed"))
    train(TrainConfig(resume=str(tmp_path / "killed")))
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert timeless(repeated(whole.command, tmp_path)) == timeless(tmp_path / "whole")


def test_a_trained_student_learns_in_reverse(text: Path, finished: Path, tmp_path: Path) -> None:
    changes = {"init": str(finished), "steps": 1, "teacher_divergence": "reverse", "teacher_share": 1.0, "dropout": 0.0}
    found = train(distilling(text, finished, tmp_path / "run", **changes))
    assert found is not None
    assert found.loss == pytest.approx(0, abs=1e-5)  # it is its own teacher


def test_what_distillation_needs_is_named(
    capsys: pytest.CaptureFixture[str], text: Path, finished: Path, tmp_path: Path
) -> None:
    def refused(**changes: Any) -> str:
        return refusal(capsys, *flags(replace(distilling(text, finished, tmp_path / "run"), **changes)))

    assert refused(teacher=None).startswith("--objective distill also needs --teacher DIR")
    assert refused(objective=None).startswith(f"--teacher {finished} also needs --objective distill")
    assert refused(objective=None, teacher=None, teacher_share=0.25) == (
        "--teacher-share is for --objective distill, which needs a --teacher"
    )
    assert refused(teacher=str(text)).startswith(f"--teacher {text} is not a folder")
    assert refused(vocab=300).startswith("--vocab is for training a tokenizer, but --teacher brings one")
    assert refused(adaptive_context=True).startswith("--adaptive-context cannot be given with a --teacher")
    assert refused(replay=0.5).startswith("--replay is for teaching a trained model: give --objective sft")
    assert not (tmp_path / "run").exists()


def test_a_teacher_with_unused_tokens_is_refused_before_the_run_begins(
    capsys: pytest.CaptureFixture[str], text: Path, finished: Path, tmp_path: Path
) -> None:
    teacher = models.build("vidya-v2", "nano", vocab_size=304)
    teacher.save(tmp_path / "teacher")
    shutil.copy(finished / "tokenizer.json", tmp_path / "teacher")
    student = flags(distilling(text, tmp_path / "teacher", tmp_path / "run"))
    error = refusal(capsys, *student)
    assert "knows 304 tokens and the student 300" in error
    assert not (tmp_path / "run").exists()
