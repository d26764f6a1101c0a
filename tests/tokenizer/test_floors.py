"""Imports run one way: each file and room imports only from the floors below it; the package's docstring lists them."""

import ast
import re
from pathlib import Path

import pytest

import tokenizer

PACKAGE = Path(tokenizer.__file__).parent
FLOORS = [
    {"errors", "jit", "naive"},
    {"disk", "structures"},
    {"text"},
    {"vocabulary", "learn"},
    {"encode"},
    {"formats"},
    {"bpe"},
    {"chat", "vidya_v1"},
    {"cli"},
    {"__init__", "__main__"},
]
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".") for path in FILES}


def floor_of(name):
    (floor,) = (i for i, names in enumerate(FLOORS) if name.split(".")[0] in names)
    return floor


def imported(source):
    """The modules of the package that a source imports, as `text.split` or `bpe`; `__init__` for the package itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "tokenizer":
                inner = name.removeprefix("tokenizer").removeprefix(".")
                yield next((each for each in (inner, inner.rpartition(".")[0]) if each in MODULES), "__init__")


def runs_up(module, source):
    """The imports of a module that do not go down a floor, or stay in its room without importing the room itself."""
    room = module.split(".")[0]
    for name in imported(source):
        same_room = "." in module and name.startswith(room + ".")
        if not same_room and floor_of(name) >= floor_of(module):
            yield name


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_run_down(module):
    source = (PACKAGE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    assert not list(runs_up(module, source))


def test_no_two_modules_import_each_other():
    below = {module: set() for module in MODULES}
    for module in MODULES:
        below[module] |= set(imported((PACKAGE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")))
    while below:  # take away what imports nothing that is left
        ground = {module for module, names in below.items() if not names & below.keys()}
        assert ground, f"these import each other: {sorted(below)}"
        below = {module: names for module, names in below.items() if module not in ground}


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("text.split", "from tokenizer.vocabulary import Vocabulary"),
        ("text.split", "from tokenizer import bpe"),
        ("learn.count", "from tokenizer.encode.merging import Ids"),
        ("vocabulary", "from tokenizer.learn import count"),
        ("jit", "import tokenizer"),
        ("formats.registry", "from tokenizer import TokenizerError"),
        ("errors", "def late():\n    import tokenizer.cli.show"),
    ],
)
def test_an_import_that_runs_up_is_found(module, line):
    assert list(runs_up(module, line))


def test_the_docstring_lists_the_floors():
    listed = re.findall(r"^    ((?:[\w/]+, )*[\w/]+)  ", tokenizer.__doc__, re.MULTILINE)
    assert [set(names.replace("/", "").split(", ")) for names in listed] == FLOORS[:-1]


def test_every_file_has_a_floor_and_the_listing_stays_short():
    assert {module.split(".")[0] for module in MODULES} == set().union(*FLOORS)
    assert len(list(PACKAGE.glob("*.py"))) <= 10
