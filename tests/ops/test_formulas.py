"""Every function that runs a kernel has its plain NumPy formula beside it, and neither of the two uses the other."""

from __future__ import annotations

import ast
import re
from itertools import chain

import pytest

from tests.op_table import TABLE
from tests.source_files import ROOT, module_of

ROOMS = (ROOT / "minigrad/ops").glob("*.py"), (ROOT / "models").glob("*/operations/*.py")
FILES = sorted(path for path in chain(*ROOMS) if path.name != "__init__.py")
DRAW_THEIR_OWN_MASKS = {"attention", "dropout"}  # the table draws the mask for their formulas


class Chapter:
    """The functions of one file of operations, and the names that each of them reaches."""

    def __init__(self, source: str) -> None:
        tree = ast.parse(source)
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        self.kernels = {
            alias.asname or alias.name
            for node in imports
            if re.match(r"minigrad\.kernels|models\.\w+\.kernels", node.module or "")
            and node.module != "minigrad.kernels.attention.plan"  # which says what a kernel does, and runs none
            for alias in node.names
        }

    def reached_from(self, name: str) -> set[str]:
        """Return every name used in a function or in the functions of this file that it reaches."""
        found, waiting = set[str](), [name]
        while waiting:
            nodes = ast.walk(self.functions[waiting.pop()])
            names = {node.id for node in nodes if isinstance(node, ast.Name)} - found
            found |= names
            waiting += names & self.functions.keys()
        return found

    def public_with_kernels(self) -> list[str]:
        public = (name for name in self.functions if not name.startswith("_") and not name.endswith("_formula"))
        return [name for name in public if self.reached_from(name) & self.kernels]

    def faults(self) -> list[str]:
        found = []
        for name in self.public_with_kernels():
            formula = f"{name}_formula"
            if formula not in self.functions:
                found.append(f"{name} runs a kernel and has no {formula}")
            elif formula in self.reached_from(name):
                found.append(f"{name} uses {formula}, so a comparison of the two would show nothing")
            elif self.reached_from(formula) & (self.kernels | {name}):
                found.append(f"{formula} is not plain NumPy")
        return found


CHAPTERS = {module_of(path): Chapter(path.read_text(encoding="utf-8")) for path in FILES}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_function_that_runs_a_kernel_has_a_formula_of_its_own(chapter: str) -> None:
    assert not CHAPTERS[chapter].faults()


def test_the_operations_with_kernels_are_found() -> None:
    found = {name for chapter in CHAPTERS.values() for name in chapter.public_with_kernels()}
    assert {"attention", "attention_with_own_key", "matmul", "embedding", "prefix_mean"} <= found
    assert not {"add", "reshape", "logsumexp", "logit_chunks"} & found


def test_the_table_compares_each_operation_with_its_formula() -> None:
    for chapter in CHAPTERS.values():
        for name in set(chapter.public_with_kernels()) & TABLE.keys() - DRAW_THEIR_OWN_MASKS:
            assert TABLE[name].reference.__name__ == f"{name}_formula"


HEAD = "from minigrad.kernels.rowwise import softmax as kernels\n"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def f(x): return kernels.run(x)", "has no f_formula"),
        ("def f(x): return _inner(x)\ndef _inner(x): return kernels.run(x)", "has no f_formula"),
        ("def f(x):\n  def backward(dy): return kernels.run(dy)\n  return x, backward", "has no f_formula"),
        ("def f(x): return kernels.run(f_formula(x))\ndef f_formula(x): return x", "f uses f_formula"),
        ("def f(x): return kernels.run(x)\ndef f_formula(x): return kernels.run(x)", "is not plain NumPy"),
        ("def f(x): return kernels.run(x)\ndef f_formula(x): return f(x)", "is not plain NumPy"),
    ],
)
def test_these_checks_can_fail(source: str, fault: str) -> None:
    (found,) = Chapter(HEAD + source).faults()
    assert fault in found


def test_a_function_without_a_kernel_needs_no_formula() -> None:
    assert not Chapter(HEAD + "def f(x): return x").faults()
