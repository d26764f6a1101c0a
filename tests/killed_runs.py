"""Runs that are killed at a step, and printed commands that are run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import train as train_program
from minigrad.cli.parser import Parser
from minigrad.system import terminal
from minigrad.training.run import Run
from minigrad.training.settings import TrainConfig
from tests.command_words import command_words
from train import train


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the program expects it."""


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
