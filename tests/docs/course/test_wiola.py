"""The paper's recipe in docs/course/wiola.md: its commands run, and train as the paper says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import train
from minigrad import nn
from minigrad.optim import AdamW, schedules
from minigrad.training.folder.record import Record
from tests.small_runs import quick_runs, write_text
from tests.source_files import ROOT
from tokenizer.cli.command_line import main as tokenizer_program

PAGE = (ROOT / "docs/course/wiola.md").read_text(encoding="utf-8").replace(" \\\n", " ")  # a command is one line
TINY = "width=16,num_heads=4,num_kv_heads=1,dsff_narrow=8,dsff_wide=16"


def command(program: str) -> list[str]:
    (found,) = re.findall(rf"^python {re.escape(program)} (.+)$", PAGE, re.MULTILINE)
    return shlex.split(found)


def test_the_recipe_of_the_paper_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    text = write_text(tmp_path / "docs/words.md")
    monkeypatch.chdir(tmp_path)
    learn = [each for each in command("-m tokenizer") if each != "README.md"]
    learn[learn.index("--vocab") + 1] = "300"
    assert tokenizer_program(learn) == 0
    flags = command("train.py")
    flags[flags.index("--steps") + 1] = "40"
    shorter = ["--data", str(text), "--set", TINY, "--batch", "1", "--context", "16", "--out", "run"]
    with quick_runs():
        assert train.main([*flags, *shorter]) == 0
    used: dict[str, Any] = Record.read(Path("run")).used
    assert used["warmup"] == 2  # 5% of 40
    assert (used["schedule"], used["lr"], used["weight_decay"], used["dropout"]) == ("cosine", 3e-4, 0.1, 0.0)
    assert (used["optimizer"], used["beta1"], used["beta2"], used["checkpointing"]) == ("adamw", 0.9, 0.95, True)
    assert train.MAX_GRADIENT_NORM == 1.0


def test_what_no_flag_sets_is_the_papers() -> None:
    assert AdamW(nn.Linear(2, 2).parameters()).eps == 1e-8
    assert schedules.warmup_cosine(99, peak=3e-4, warmup=5, steps=100) == pytest.approx(0, abs=1e-19)
