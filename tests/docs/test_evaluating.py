"""The commands of docs/evaluating.md are understood by the programs that they call."""

from __future__ import annotations

import re
import shlex

from benchmarks.variants import divide
from minigrad.cli.parser import Parser
from minigrad.evaluate.settings import EvaluateConfig
from minigrad.training.settings import TrainConfig
from tests.source_files import ROOT

PAGE = (ROOT / "docs/evaluating.md").read_text(encoding="utf-8")
TRAIN = Parser(TrainConfig, prog="train.py", description="")
EVALUATE = Parser(EvaluateConfig, prog="python -m minigrad.evaluate", description="")


def test_commands_are_understood() -> None:
    commands = re.findall(r"^    python (.+)$", PAGE, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command)
        if words[0] == "train.py":
            TRAIN.read(words[1:])
        elif words[0] == "-m":
            EVALUATE.read(words[2:])
        else:
            for variant in divide(words)[1]:
                TRAIN.read(shlex.split(variant))


def test_flags_that_are_named_exist() -> None:
    known = {each.spelling for parser in (TRAIN, EVALUATE) for each in parser.options}
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) - known <= {"--seeds"}
