"""The guest of docs/attach_your_own.md attaches itself, does what the page says, and uses the hooks that it lists."""

from __future__ import annotations

import inspect
import re

import pytest

from minigrad import nn
from minigrad.autograd import observers
from tests.docs.python_blocks import python_blocks, run
from tests.source_files import ROOT
from train import train

PAGE = "docs/attach_your_own.md"


def test_the_guest_attaches_itself_and_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("\n".join(python_blocks(PAGE)))
    free, costly = map(float, re.findall(r"at a price of .*: (.*)", capsys.readouterr().out))
    assert costly < free / 10
    assert names["model"].added_loss == pytest.approx(costly, rel=0.01)


def test_the_guest_is_short() -> None:
    guest = python_blocks(PAGE)[0].split("def train")[0]
    assert len([line for line in guest.splitlines() if line.strip()]) <= 30


def test_the_hooks_of_the_table_exist() -> None:
    for name in ("replace", "Wrapper", "loss_pass"):
        assert hasattr(nn, name)
    for name in ("figures", "idle", "config_entries"):
        assert hasattr(nn.Module, name)
    assert hasattr(nn.Parameter, "stored")
    assert hasattr(observers, "watch")
    assert "guests" in inspect.signature(train).parameters
    rows = [line for line in (ROOT / PAGE).read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) == 10
