"""The rules of the house that a machine can check: who imports whom, how long a file is, what it is called."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for name in ("minigrad", "models", "tokenizer") for path in (ROOT / name).rglob("*.py"))
PROGRAMS = sorted(ROOT / name for name in ("train.py", "generate.py") if (ROOT / name).exists())

# What each part of minigrad may import besides the standard library, `errors` and `cache` (which import nothing but
# the standard library themselves). A name stands for itself and everything inside it.
KERNELS = {"numpy", "numba", "llvmlite", "minigrad.kernels"}
ALLOWED: dict[str, set[str]] = {
    "minigrad.errors": set(),
    "minigrad.cache": set(),
    "minigrad.hardware": set(),  # runs before NumPy loads
    "minigrad.kernels": KERNELS,
    "minigrad.anomaly": {"numpy"},
    "minigrad.profile": {"numpy"},
    "minigrad.random": {"numpy"},
    "minigrad.graph": {"numpy", "minigrad.anomaly", "minigrad.profile"},
    "minigrad.operators": {"numpy", "minigrad.__init__"},  # looks the operations up when an operator is used
    "minigrad.tensor": {"numpy", "minigrad.graph", "minigrad.operators", "minigrad.ops"},
    "minigrad.op": {"numpy", "minigrad.tensor", "minigrad.graph", "minigrad.anomaly", "minigrad.profile"},
    "minigrad.gradcheck": {"numpy", "minigrad.tensor", "minigrad.graph", "minigrad.random"},
    "minigrad.ops": {"numpy", "minigrad.ops", "minigrad.op", "minigrad.graph", "minigrad.kernels", "minigrad.random"},
    "minigrad.nn": {"numpy", "minigrad.nn", "minigrad.ops", "minigrad.tensor", "minigrad.graph", "minigrad.random"},
    "minigrad.optim": {"numpy", "minigrad.optim", "minigrad.kernels", "minigrad.tensor", "minigrad.graph"},
    "minigrad.language_model": {"numpy", "minigrad.nn", "minigrad.ops", "minigrad.tensor", "minigrad.checkpoint"},
    "minigrad": {"numpy", "safetensors", "tqdm", "minigrad"},  # the other files: data, checkpoints, reports ...
    "models": {"numpy", "minigrad"},
    "tokenizer": {"numpy", "numba", "regex", "tqdm", "tokenizer"},
}
ONLY_INSIDE_FUNCTIONS = {"numba", "matplotlib", "mpi4py", "torch", "transformers", "tokenizers"}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[str, bool]]:
    """Go through (imported module, whether at the top of the file); imports for type checkers only do not count."""

    def walk(node: ast.AST, top: bool) -> Iterator[tuple[str, bool]]:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            return
        if isinstance(node, ast.Import):
            # `import minigrad` alone imports its __init__, which loads nothing before it is asked.
            names = (alias.name for alias in node.names)
            yield from (("minigrad.__init__" if name == "minigrad" else name, top) for name in names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            # `from minigrad import ops` imports minigrad.ops.
            yield from ((f"{base}.{a.name}" if base in ("minigrad", "models") else base, top) for a in node.names)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, top and not inside)

    yield from walk(tree, True)


def imports_of(path: Path) -> list[tuple[str, bool]]:
    return list(imports(ast.parse(path.read_text()), module_of(path), path.stem == "__init__"))


def is_within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def rule_for(module: str) -> tuple[str, set[str]]:
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in ALLOWED:
            return name, ALLOWED[name]
    raise AssertionError(f"no rule for {module}")


def forbidden(module: str, imported: list[tuple[str, bool]]) -> list[str]:
    part, allowed = rule_for(module)
    found = []
    for name, top in imported:
        first = name.split(".")[0]
        standard = first in sys.stdlib_module_names or first == "__future__"
        harmless = is_within(name, {"minigrad.errors", "minigrad.cache"}) and part.startswith(("minigrad", "models"))
        lazily = not top and first in ONLY_INSIDE_FUNCTIONS
        of_a_sibling = part == "models" and name.startswith("models.") and module != "models"
        own = module == "models" and name.startswith("models.")
        if of_a_sibling or not (standard or harmless or lazily or own or is_within(name, allowed)):
            found.append(name)
    return found


def test_the_files_are_found() -> None:
    assert len(FILES) > 40
    assert {"minigrad.tensor", "models.vidya_v2", "tokenizer.bpe"} <= {module_of(path) for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_who_imports_whom(path: Path) -> None:
    assert not forbidden(module_of(path), imports_of(path)), f"{module_of(path)} may not import these"


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("minigrad.kernels.softmax", "from minigrad.tensor import Tensor"),
        ("minigrad.kernels.softmax", "from minigrad import ops"),
        ("minigrad.tensor", "import numba"),
        ("minigrad.hardware", "import numpy as np"),
        ("minigrad.ops.softmax", "from minigrad.nn import Module"),
        ("minigrad.data", "import tokenizer"),
        ("minigrad.nn.layers", "from models import vidya_v2"),
        ("minigrad.report", "import matplotlib.pyplot as plt"),
        ("models.vidya_v2", "from models import wiola"),
        ("models.vidya_v2", "import tokenizer"),
        ("tokenizer.bpe", "from minigrad.errors import InputError"),
    ],
)
def test_the_import_rule_can_fail(module: str, line: str) -> None:
    assert forbidden(module, list(imports(ast.parse(line), module, is_package=False)))


@pytest.mark.parametrize("path", FILES + PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_a_chapter(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300, "longer than 300 lines: which two ideas does it hold?"
    assert ast.get_docstring(ast.parse(path.read_text())), "no docstring at the top"


@pytest.mark.parametrize("path", FILES + PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_say_what_is_inside(path: Path) -> None:
    words = set(path.stem.split("_"))
    assert not words & {"utils", "util", "helpers", "helper", "common", "misc"}


def uses_the_compiler(tree: ast.AST) -> bool:
    """Whether a file takes anything from Numba but its version."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_within(node.module or "", {"numba"}):
            return True
        of_numba = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "numba"
        if of_numba and isinstance(node, ast.Attribute) and node.attr != "__version__":
            return True
    return False


def test_only_two_files_use_the_compiler() -> None:
    users = {module_of(path) for path in FILES + PROGRAMS if uses_the_compiler(ast.parse(path.read_text()))}
    assert users == {"minigrad.kernels", "tokenizer.jit"}
    assert uses_the_compiler(ast.parse("@numba.njit\ndef loop(): pass"))


@pytest.mark.parametrize("path", sorted((ROOT / "minigrad/kernels").glob("*.py")), ids=module_of)
def test_kernels_know_nothing_of_tensors(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "Tensor" not in names | attributes
