"""The twenty lines of docs/judging.md are a study that can be made."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import models
from benchmarks.evaluation.causality import ALLOWED, leak
from benchmarks.evaluation.one_run import install
from benchmarks.evaluation.report import ReportConfig
from benchmarks.evaluation.run import RunnerConfig
from benchmarks.evaluation.study import Arm, Study
from minigrad.options import options
from tests.source_files import ROOT

PAGE = (ROOT / "docs/judging.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_study_of_the_page_compares_a_causal_model_of_equal_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,), (text,) = blocks("python"), blocks("toml")
    assert 10 <= len([line for line in text.splitlines() if line]) <= 20
    (tmp_path / "idea.py").write_text(code, encoding="utf-8")
    (tmp_path / "idea.toml").write_text(text, encoding="utf-8")
    study = Study.read(tmp_path / "idea.toml")
    control = models.count("vidya-v2", "nano")
    monkeypatch.setitem(models.FAMILIES, "vidya-v2", models.FAMILIES["vidya-v2"])
    install(study, study.named("scaled"))
    shape = {"num_layers": 2, "width": 32, "head_dim": 8, "feed_forward": 32, "vocab_size": 64, "context_length": 16}
    model = models.skeleton("vidya-v2", "nano", **shape)
    assert "Scaled" in str(model)
    assert leak(model, 16) <= ALLOWED
    assert 0 < models.count("vidya-v2", "nano") - control < 0.01 * control


def test_entries_and_flags_that_the_page_names_exist() -> None:
    table = PAGE.partition("## The entries of a study")[2].partition("## What is checked")[0]
    named = set(re.findall(r"`\[?(\w+)\]?`", "\n".join(re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE))))
    known = {each.name for kind in (Study, Arm) for each in dataclasses.fields(kind)}
    assert {"control", "judged", "tuning", "leaks"} <= named <= known
    flags = {each.spelling for kind in (RunnerConfig, ReportConfig) for each in options(kind)}
    page = re.sub(r"python benchmarks/recall_text\.py.*", "", PAGE)  # which has flags of its own
    assert set(re.findall(r"--[a-z][a-z-]*", page)) - {"--model", "--size", "--data"} <= flags
