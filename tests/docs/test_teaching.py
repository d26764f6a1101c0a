"""The commands of docs/teaching.md are understood, its conversations are read, and its program runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np

from minigrad.cli.parser import Parser
from minigrad.finetuning.conversations import conversations_in
from minigrad.finetuning.tasks import TASKS
from minigrad.generation.settings import GenerateConfig
from minigrad.training.settings import OBJECTIVES, TrainConfig
from tests.docs.python_blocks import python_blocks, run
from tests.source_files import ROOT

PAGE = (ROOT / "docs/teaching.md").read_text(encoding="utf-8")
TRAIN = Parser(TrainConfig, prog="train.py", description="")
GENERATE = Parser(GenerateConfig, prog="generate.py", description="")


def test_commands_are_understood() -> None:
    lines = PAGE.replace("\\\n", " ")  # a command may go on in the next line
    commands = [shlex.split(each) for each in re.findall(r"^    python (.+)$", lines, re.MULTILINE)]
    assert len(commands) == 10
    for program, *words in commands:
        if program == "generate.py":
            GENERATE.read(words)
        else:
            TRAIN.read(words)[0].check()


def test_flags_objectives_and_tasks_that_are_named_exist() -> None:
    known = {each.spelling for parser in (TRAIN, GENERATE) for each in parser.options}
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) <= known
    assert tuple(re.findall(r"^\| `([a-z][a-z-]*)` \|", PAGE, re.MULTILINE)) == OBJECTIVES
    assert all(f"`{task}`" in PAGE or f"task:{task}" in PAGE for task in TASKS)


def test_the_conversations_are_read(tmp_path: Path) -> None:
    book = re.findall(r"^    ([QA]: .+)$", PAGE, re.MULTILINE)
    lines = re.findall(r"^    (<\|user\|>.+)$", PAGE, re.MULTILINE)
    objects = [each for each in re.findall(r"^    (\{.+)$", PAGE, re.MULTILINE) if "chosen" not in each]
    for name, found in (("book.txt", book), ("lines.txt", lines), ("talk.jsonl", objects)):
        (tmp_path / name).write_text("\n".join(found), encoding="utf-8")
        assert len([read() for read in conversations_in(tmp_path / name)]) == 1


def test_the_program_makes_an_answer_less_likely() -> None:
    (program,) = python_blocks("docs/teaching.md")
    names = run(program)
    assert np.abs(np.asarray(names["model"].head().grad)).max() > 0
    assert names["weighted"].item() > 0
