"""The programs of docs/variable_shapes.md print what the page says, and each line of its table is computed."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any

import numpy as np
import pytest

from minigrad import Tensor, ops
from models.vsla import variable
from models.vsla.variable import equivalent
from tests.docs.python_blocks import python_blocks, run
from tests.source_files import ROOT

PAGE = "docs/variable_shapes.md"


def test_the_programs_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    program = "\n".join(python_blocks(PAGE))
    run(program)
    said = re.findall(r"^print\(.*\)  # (?:.*: )?([\[({TFV0-9].*)$", program, flags=re.MULTILINE)
    printed = capsys.readouterr().out.splitlines()
    assert len(said) == len(printed) == program.count("\nprint(")
    for line, expected in zip(printed, said, strict=True):
        assert line == expected.partition(": the")[0]


LINES = re.findall(r"^\| (`.*`) \| (yes|no) \| ", (ROOT / PAGE).read_text(encoding="utf-8"), flags=re.MULTILINE)
TABLE = [(expression, verdict == "yes") for cell, verdict in LINES for expression in re.findall("`([^`]+)`", cell)]
EXAMPLES = 20


def sequences(seed: int, more: int) -> dict[str, Any]:
    """Return the names of the table's expressions, with `more` zeros after each sequence and 2 more after v."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 5))
    shapes = {"x": (4,), "y": (4,), "heads": (1, 4), "u": (), "v": ()}
    names: dict[str, Any] = {}
    for name, row in shapes.items():
        own = length + (name == "v")
        array = np.zeros((own + more * (1 + (name == "v")), *row))
        array[:own] = rng.normal(size=(own, *row))
        names[name] = Tensor(array)
    names["ids"] = np.zeros(length + more, np.int64)
    names["ids"][:length] = rng.integers(1, 4, length)
    total = length + more
    names |= {"whole": np.array([0, total]), "nine": np.array([0, 9]), "positions": np.arange(total)}
    fixed = {"w": (4, 4), "bias": (4,), "scale": (4,), "table": (4, 4), "cosine": (9, 2), "sine": (9, 2)}
    return names | {name: rng.normal(size=shape) for name, shape in fixed.items()}


@functools.cache
def operations() -> dict[str, Any]:
    own = {
        name: getattr(variable, name)
        for name in ("convolve", "kronecker", "outer", "resize_sequences", "zero_extend", "zero_extended_stack")
    }
    return {name: getattr(ops, name) for name in ops.__all__} | own


def value(expression: str, seed: int, more: int) -> Tensor:
    with np.errstate(all="ignore"):
        result = eval(expression, operations() | sequences(seed, more))
    assert isinstance(result, Tensor)
    return result


def keeps_the_class(expression: str, seed: int, more: int) -> bool:
    """Whether the operation gives equivalent results without and with zeros at the end."""
    return equivalent(rounded(value(expression, seed, 0)), rounded(value(expression, seed, more)))


def rounded(x: Tensor) -> Tensor:
    return Tensor(np.round(x.data, 9))  # products of matrices of different shapes add in different orders


@pytest.mark.parametrize(("expression", "is_kept"), TABLE, ids=[expression for expression, _ in TABLE])
def test_the_table_says_which_operations_keep_the_class(expression: str, is_kept: bool) -> None:
    found = [keeps_the_class(expression, seed, more) for seed, more in itertools.product(range(EXAMPLES), (1, 2))]
    assert all(found) if is_kept else not all(found)


def test_the_table_is_read() -> None:
    called = {name for expression, _ in TABLE for name in re.findall(r"(\w+)\(", expression)}
    assert {"linear", "softmax", "mean", "sigmoid", "layer_norm", "convolve", "kronecker", "add"} < called
    assert len(TABLE) == len(set(TABLE)) > 55


def test_a_wrong_verdict_is_noticed() -> None:
    assert not keeps_the_class("exp(x)", seed=0, more=1)
    assert keeps_the_class("tanh(x)", seed=0, more=1)
