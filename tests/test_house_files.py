"""The rules of files: their names, the size of files and functions, and a test file for each source file."""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path

import pytest

from tests.source_files import BENCHMARKS, DOCS, FILES, PAGES, PROGRAMS, ROOT, TESTS, imports_of, module_of, name_of

ALL = FILES + PROGRAMS + TESTS + BENCHMARKS + DOCS


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# The three that a reader opens first hold fewer files than other rooms; one of these is a list of operations.
FILES_OF_A_ROOM = {"minigrad": 8, "minigrad/kernels": 8, "tokenizer": 10, "minigrad/nn": 17, "minigrad/ops": 20}


@pytest.mark.parametrize("folder", sorted({name_of(path.parent) for path in FILES}))
def test_a_room_holds_few_files(folder: str) -> None:
    assert len(list((ROOT / folder).glob("*.py"))) <= FILES_OF_A_ROOM.get(folder, 15)


def test_a_file_is_a_chapter() -> None:
    too_long = [name_of(path) for path in ALL if len(path.read_text(encoding="utf-8").splitlines()) > 500]
    assert not too_long, "over 500 lines: which two ideas do they hold?"
    assert not [name_of(path) for path in ALL if path not in TESTS and not ast.get_docstring(tree_of(path))]


# Functions with more than seven parameters, and why; `self` and `cls` do not count.
MANY_PARAMETERS = {
    "minigrad/ops/attention.py: attention": "three arrays, and options that callers name",
    "minigrad/ops/attention.py: attention_formula": "the arguments of the operation",
}


def too_large(tree: ast.AST) -> list[str]:
    """Return the functions that are longer than sixty lines or have more than seven parameters."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if len(set(names) - {"self", "cls"}) > 7 or lines > 60:
                found.append(node.name)
    return found


def test_a_function_fits_on_a_screen() -> None:
    assert {f"{name_of(path)}: {name}" for path in ALL for name in too_large(tree_of(path))} == set(MANY_PARAMETERS)


def test_the_limits_of_a_function_can_be_exceeded() -> None:
    assert too_large(ast.parse("def f(a, b, c, d, e, f, g, h): pass")) == ["f"]
    assert too_large(ast.parse("def f():\n" + "    pass\n" * 60)) == ["f"]
    assert not too_large(ast.parse("def f(self, a, b, c, d, e, f, g):\n" + "    pass\n" * 59))


def leaves_encoding_open(tree: ast.AST) -> list[int]:
    """Return the lines that read or write a text file without naming its encoding: on Windows that is not UTF-8."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr, len(node.args)) in (("read_text", 0), ("write_text", 1))
        and not (isinstance(node.func.value, ast.Name) and node.func.value.id == "small_runs")
        and "encoding" not in [keyword.arg for keyword in node.keywords]
    ]


def test_a_text_file_has_an_encoding() -> None:
    assert not [f"{name_of(path)}:{line}" for path in ALL for line in leaves_encoding_open(tree_of(path))]


def test_an_encoding_can_be_missed() -> None:
    assert leaves_encoding_open(ast.parse("path.read_text()\n\n(folder / 'a').write_text('b')")) == [1, 3]
    assert not leaves_encoding_open(ast.parse("path.read_text(encoding='ascii')"))


def has_functions(path: Path) -> bool:
    """Whether a file has a function with more than a docstring, which declarations and protocols have not."""
    functions = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef))
    return any(len(function.body) > 1 or ast.get_docstring(function) is None for function in functions)


# Tests of more than one file of the source: the laws.
LAWS = {
    "tests/autograd/test_deferred_gradients.py",
    "tests/autograd/test_profiling_changes_nothing.py",
    "tests/autograd/test_random_graphs.py",
    "tests/docs/course/test_solutions.py",
    "tests/docs/test_examples.py",
    "tests/docs/test_page_sources.py",
    "tests/docs/test_readme.py",
    "tests/kernels/test_signatures.py",
    "tests/kernels/test_twins.py",
    "tests/models/test_cache_formats.py",
    "tests/models/test_causality.py",
    "tests/models/test_causality_by_default.py",
    "tests/models/test_experts.py",
    "tests/models/test_gradients_and_learning.py",
    "tests/models/test_gradients_by_default.py",
    "tests/models/test_packed.py",
    "tests/models/test_ragged_cache.py",
    "tests/models/test_saved_models.py",
    "tests/models/wiola/test_paper_table_ix.py",
    "tests/nn/test_every_layer.py",
    "tests/ops/test_every_op.py",
    "tests/ops/test_formulas.py",
    "tests/optim/test_magnitudes.py",
    "tests/programs/test_laws.py",
    "tests/programs/test_laws_of_time.py",
    "tests/programs/test_speed_settings.py",
    "tests/stress/test_mutations.py",
    "tests/test_english.py",
    "tests/test_house.py",
    "tests/test_house_files.py",
    "tests/tokenizer/test_ladder.py",
}


def home_of(path: Path) -> str:
    """Return the beginning of the names of the test files of a source file, as in tests/ops/test_softmax."""
    folder = path.parent.relative_to(ROOT)
    if path in PROGRAMS:
        folder = Path("programs")
    elif folder.parts[0] == "minigrad":
        folder = folder.relative_to("minigrad")
    return (Path("tests") / folder / f"test_{path.stem.strip('_')}").as_posix()


def are_of(test: str, home: str) -> bool:
    """Whether a test file belongs to a source file: tests/ops/test_softmax.py, or test_softmax_rows.py beside it."""
    name = test.removesuffix(".py")
    return name == home or (name.startswith(f"{home}_") and Path(name).parent == Path(home).parent)


def is_in_a_table(path: Path) -> bool:
    """Whether a file of kernels is compared with its formulas by a table of its room (see test_twins.py)."""
    tables = (ROOT / home_of(path)).parent.glob("*twins.py")
    return any(module_of(path) in {name for name, _ in imports_of(table)} for table in tables)


SOURCES = [path for path in FILES + PROGRAMS + DOCS if path.name != "__init__.py"]


TEST_NAMES = {name_of(path) for path in TESTS if path.name.startswith("test_")}


def test_every_file_with_a_function_has_a_test_file() -> None:
    def is_tested(path: Path) -> bool:
        return is_in_a_table(path) or any(are_of(test, home_of(path)) for test in TEST_NAMES)

    assert not [name_of(path) for path in SOURCES if has_functions(path) and not is_tested(path)]


def test_every_test_file_has_a_source_file() -> None:
    homes = {home_of(path) for path in SOURCES + BENCHMARKS + PAGES}
    lonely = {test for test in TEST_NAMES if not any(are_of(test, home) for home in homes)}
    assert {test for test in lonely if not test.startswith("tests/peers/")} == LAWS


def test_names_say_what_is_inside() -> None:
    empty_words = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert not [name_of(path) for path in ALL if empty_words & set(path.stem.split("_"))]


def test_every_python_that_may_install_is_tested() -> None:
    """The workflow's matrix has the versions that pyproject.toml allows; README.md names them."""
    allowed = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert allowed
    versions = [f"3.{minor}" for minor in range(*map(int, allowed.groups()))]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert f"python: {json.dumps(versions)}" in workflow
    assert f"Python {', '.join(versions[:-1])} or {versions[-1]}" in (ROOT / "README.md").read_text("utf-8")
