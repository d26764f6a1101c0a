"""The commands of docs/many_machines.md are understood by train.py, and its arithmetic is that of the benchmark."""

from __future__ import annotations

import re
import shlex

from benchmarks.many_machines import bytes_per_token
from minigrad.cli.parser import Parser
from minigrad.training.settings import TrainConfig
from tests.source_files import ROOT

PAGE = (ROOT / "docs/many_machines.md").read_text(encoding="utf-8")
TRAIN = Parser(TrainConfig, prog="train.py", description="")


def test_commands_and_flags_are_understood() -> None:
    commands = re.findall(r"^    mpiexec .*? train\.py (.+)$", PAGE, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        TRAIN.read(shlex.split(command))
    known = {option.spelling for option in TRAIN.options} | {"--bandwidth", "--latency"}  # of the benchmark
    assert set(re.findall(r"`(--[a-z][a-z-]*)", PAGE)) <= known


def test_the_bytes_for_a_token_are_those_of_the_page() -> None:
    few, many = (bytes_per_token(14, 288, 14_753_952, 2, tokens) for tokens in (2_048, 32_768))
    assert f"{few['data']:,.0f} at n = 2,048; {many['data']:,.0f} at 32,768" in PAGE
    assert f"| {few['tensor']:,.0f} |" in PAGE
    head = 8_192 * 288
    tied = bytes_per_token(14, 288, 14_753_952, 2, 2_048, head)["pipeline"]
    assert f"| {few['pipeline']:,.0f} each way; with the tied head {tied:,.0f} at n = 2,048 |" in PAGE
    assert f"{few['tensor'] / few['pipeline']:.0f} times for mini, and {few['tensor'] / tied:.0f} times if the" in PAGE
    tokens = 4 * (14_753_952 - head) / few["pipeline"]  # from which on data parallel sends less
    assert 43_000 < tokens < 43_500
    assert "as soon as a step has 43,000 tokens" in " ".join(PAGE.split())
