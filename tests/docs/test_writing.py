"""The programs of docs/writing.md run, one after the other, and its table names the settings that there are."""

from __future__ import annotations

import re

import pytest

from minigrad.cli.parser import Parser
from minigrad.generation.settings import GenerateConfig
from tests.docs.python_blocks import python_blocks, run
from tests.source_files import ROOT


def test_the_programs_run(capsys: pytest.CaptureFixture[str]) -> None:
    run("\n".join(python_blocks("docs/writing.md")))
    said = capsys.readouterr().out
    assert said.count("by the model") >= 1
    assert said.count("'<|end|>'") == 1


def test_the_flags_of_the_page_are_those_of_the_program() -> None:
    page = (ROOT / "docs/writing.md").read_text(encoding="utf-8")
    parser = Parser(GenerateConfig, prog="generate.py", description="Write.")
    flags = set(re.findall(r"--[a-z][a-z-]+", re.sub(r"python train.py[^`\n]*", "", page)))
    assert len(flags) > 12
    assert flags <= {option.spelling for option in parser.options}
