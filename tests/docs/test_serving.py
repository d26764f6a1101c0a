"""The commands and the table of docs/serving.md are those of the program."""

from __future__ import annotations

import dataclasses
import re
import shlex

from minigrad.cli.parser import Parser
from minigrad.serving.bodies import ChatBody, CompletionBody
from minigrad.serving.places import PIECE
from minigrad.serving.scheduler import TOGETHER
from minigrad.serving.settings import ServeConfig
from tests.docs.python_blocks import python_blocks
from tests.source_files import ROOT

PAGE = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
PARSER = Parser(ServeConfig, prog="python -m minigrad.serving", description="")


def test_commands_and_flags_are_understood() -> None:
    commands = re.findall(r"python -m minigrad.serving ([^`\n]+)", PAGE)
    assert len(commands) == 2
    for command in commands:
        PARSER.read(shlex.split(command))
    flags = set(re.findall(r"--[a-z][a-z-]+", PAGE))
    assert flags <= {each.spelling for each in PARSER.options}
    given = re.findall(r"(--[a-z-]+) (\d+)(?![.\d])", PAGE)
    defaults = {each.spelling: each.default for each in PARSER.options}
    assert all(float(value) == defaults[flag] for flag, value in given)


def test_the_fields_of_the_page_are_those_of_requests() -> None:
    fields = {field.name for kind in (CompletionBody, ChatBody) for field in dataclasses.fields(kind)}
    (paragraph,) = re.findall(r"A request for text may have (.+?)\.\s+Defaults", PAGE, flags=re.DOTALL)
    assert set(re.findall(r"`(\w+)`", paragraph)) == fields - {"include_usage"} | {"stream_options"}


def test_pieces_have_the_size_that_the_page_says() -> None:
    assert f"pieces of {PIECE} tokens that begin at multiples of {PIECE}" in PAGE
    assert f"about {PIECE * TOGETHER} tokens in all" in PAGE


def test_the_program_is_python() -> None:
    (program,) = python_blocks("docs/serving.md")
    compile(program, "docs/serving.md", "exec")
