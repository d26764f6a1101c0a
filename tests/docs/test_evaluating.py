"""The commands of docs/evaluating.md are understood by the programs that they call."""

from __future__ import annotations

import platform
import re
import shlex

import numba
import numpy as np
import pytest

from benchmarks.parts import COLUMNS, rows
from benchmarks.variants import divide
from docs.measurements.records import read
from minigrad.cli.parser import Parser
from minigrad.data import corpus, python_docs
from minigrad.data.split import num_bytes
from minigrad.evaluate.__main__ import EvaluateConfig
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


def test_the_parts_of_the_default_text_are_those_of_the_record() -> None:
    """Of the versions that the page names; other versions have other documents."""
    record = read()["the-split"]
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}"
    text = python_docs.read()
    library, sizes = set(python_docs.library_documentation()), rows(corpus.load().split())
    shares = [float(sizes[part][2]) for part in ("training", "validation", "test")]
    assert 90 < shares[0] < 96
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert record.columns == COLUMNS
    if not record.machine.endswith(versions):
        pytest.skip(f"the page is of {record.machine}")
    assert {name: record.values(name) for name in sizes} == sizes
    of_python = sum(each in library for each in text.test)
    of_numpy = sum(each.startswith("numpy.") for each in text.test)
    of_each = f"{of_python}, {of_numpy} and {len(text.test) - of_python - of_numpy}"
    counts = f"{len(library)} documents; {of_each}"
    assert record.values("documents of Python, and those of each source that are for the test") == [counts]
    left_out, lost = corpus.load().split().left_out, num_bytes(text.train) - int(sizes["training"][1].replace(",", ""))
    assert record.values("left out of training") == [f"{left_out} paragraphs, {lost / 1000:.1f} kB"]
