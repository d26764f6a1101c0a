"""The files of the source, and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("minigrad", "models", "tokenizer")
FILES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
PROGRAMS = [ROOT / "train.py", ROOT / "generate.py"]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
DOCS = sorted((ROOT / "docs").rglob("*.py"))  # programs of the pages, and what builds them
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


MODULES = {module_of(path) for path in FILES}


def imports(tree: ast.AST, top: bool = True) -> Iterator[tuple[str, bool]]:
    """Yield (imported module, whether at the top of the file); an import for type checkers is not at the top."""
    if isinstance(tree, ast.Import):
        yield from ((alias.name, top) for alias in tree.names)
    elif isinstance(tree, ast.ImportFrom):
        assert not tree.level, "imports name the whole path"
        base = tree.module or ""
        yield from ((found if (found := f"{base}.{a.name}") in MODULES else base, top) for a in tree.names)
    inside = isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    inside |= isinstance(tree, ast.If) and ast.unparse(tree.test).endswith("TYPE_CHECKING")
    for child in ast.iter_child_nodes(tree):
        yield from imports(child, top and not inside)


def imports_of(path: Path) -> list[tuple[str, bool]]:
    return list(imports(ast.parse(path.read_text(encoding="utf-8"))))
