"""docs/logs.md names every field of metrics.jsonl, and its programs send each line on."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from minigrad.cli.parser import Parser
from minigrad.training.folder.metrics import Measurement, Metrics
from minigrad.training.folder.record import Record
from minigrad.training.report.__main__ import ReportConfig
from tests.docs.python_blocks import python_blocks, run
from tests.source_files import ROOT

PAGE = (ROOT / "docs/logs.md").read_text(encoding="utf-8")


OF_GUESTS = ["reward", "context", "decisions", "merge_ratio", "far_share", "pattern_share", "expert_load_0"]


def test_every_field_is_documented_and_no_other() -> None:
    found = re.findall(r"^\| `([a-z_0-9]+)`", PAGE, re.MULTILINE)
    fields = [field.name for field in dataclasses.fields(Measurement) if field.name != "extra"]
    assert sorted(found) == sorted([*fields, *OF_GUESTS])


def test_the_command_is_understood() -> None:
    (command,) = re.findall(r"^    python -m minigrad\.training\.report (.+)$", PAGE, re.MULTILINE)
    config, _ = Parser(ReportConfig, prog="", description="").read(command.split())
    assert (len(config.runs), config.out) == (2, "comparison.html")


def test_the_programs_send_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "runs" / "vidya-v2-nano"
    folder.mkdir(parents=True)
    log, sent = Metrics(folder), list[Any]()
    for step in (1, 50):
        log.append(Measurement(step, 64, 5.0, 2.0, 1e-3, 1.0, 0.5, 9.0, 10**8, extra={"merge_ratio": [0.5]}))
    Record(settings={"seed": 3, "lr": None}, chosen={"lr": 0.006}).write(folder)

    @contextmanager
    def init(**options: Any) -> Any:
        sent.append(options["config"])
        yield SimpleNamespace(log=lambda line, step: sent.append((step, line)))

    @contextmanager
    def writer(path: str) -> Any:
        def add_scalar(name: str, value: float, step: int, walltime: float) -> None:
            sent.append((name, value, step, walltime))

        yield SimpleNamespace(add_scalar=add_scalar)

    for name, content in {"wandb": {"init": init}, "torch.utils.tensorboard": {"SummaryWriter": writer}}.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    tensorboard, wandb = python_blocks("docs/logs.md")
    run(wandb)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sent[0]["lr"] == 0.006
    assert sent[1:] == [(line["step"], line) for line in lines]
    sent.clear()
    run(tensorboard)
    assert ("loss", 5.0, 50, 0.5) in sent
    assert len(sent) == 2 * 9
