"""The standard library of the running Python as training text: every installation has it.

The source files are read and parsed, never imported: importing all modules would run code and open windows.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from minigrad.system.cache import cache_folder, store

TEST_FOLDERS = {"test", "tests", "idle_test"}
TABLES = {"encodings", "pydoc_data"}  # tables of numbers, and one literal of 800 kB
SHORTEST_DOCUMENT = 200  # characters: many modules have one line of docstring, which is no document
SHORTEST_REPEAT = 40  # characters: "Example:" may occur in many places, a whole sentence may not

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def library_folder() -> Path:
    """Return the folder of the standard library, which need not be where the interpreter is."""
    return Path(sysconfig.get_path("stdlib"))


def documentation() -> list[str]:
    """Return the language reference, one document per topic, then the docstrings, one document per module.

    A paragraph that occurred anywhere before is dropped: copied docstrings are common, and a copy of a training
    paragraph in the held-out part would be counted as learning. About 2.4 MB. The first call parses for some
    seconds; the result is kept in the cache folder.
    """
    # The text changes with the version of Python, with the library folder and with this file.
    made_by = f"{sys.version} {library_folder()} {Path(__file__).read_text(encoding='utf-8')}"
    key = hashlib.blake2b(made_by.encode(), digest_size=16).hexdigest()
    kept = cache_folder() / "python-docs" / f"{key}.json"
    try:
        documents: list[str] = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        documents = list(_documentation())
        store(kept, lambda file: file.write(json.dumps(documents).encode()))
    return documents


def source() -> list[str]:
    """Return the source files, exact copies once: 30 MB, or 9 MB where the library has no tests installed."""
    texts = (_read(path) for path in _paths() if path.parts[0] not in TABLES)
    return list(dict.fromkeys(text for text in texts if text.strip()))


def definitions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    """Yield the dotted name and the node of every class and function below `tree`, in source order.

    >>> [name for name, node in definitions(ast.parse("class List:\\n  def sort(self): pass"), "builtins")]
    ['builtins.List', 'builtins.List.sort']
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}.{node.name}"
            yield name, node
            yield from definitions(node, name)
        elif isinstance(node, ast.stmt | ast.ExceptHandler):  # definitions also hide in `if` and `try`
            yield from definitions(node, prefix)


def paragraphs(text: str) -> list[str]:
    """Split a text at its blank lines.

    >>> paragraphs("one\\n  line\\n\\n \\nanother")
    ['one\\n  line', 'another']
    """
    return [part.rstrip() for part in re.split(r"\n\s*\n", text.strip("\n")) if part.strip()]


def _documentation() -> Iterator[str]:
    seen: set[str] = set()

    def unseen(section: list[str]) -> list[str]:
        kept = []
        for paragraph in section:
            words = " ".join(paragraph.split())
            if len(words) < SHORTEST_REPEAT or words not in seen:
                kept.append(paragraph)
            seen.add(words)
        return kept if kept != section[:1] else []  # a heading with nothing left below it

    for document in (*_topics(), *_modules()):
        text = "\n\n".join(paragraph for section in document for paragraph in unseen(section))
        if len(text) >= SHORTEST_DOCUMENT:
            yield text


# A document is a list of sections, a section a list of paragraphs, the first of which is its heading.


def _topics() -> Iterator[list[list[str]]]:
    module = ast.parse(_read(Path("pydoc_data/topics.py")))
    for statement in module.body:
        if isinstance(statement, ast.Assign):  # topics = {name: text, ...}
            topics: dict[str, str] = ast.literal_eval(statement.value)
            for _, text in sorted(topics.items()):
                yield [paragraphs(text)]


def _modules() -> Iterator[list[list[str]]]:
    for path in _paths():
        parts = path.with_suffix("").parts
        if TEST_FOLDERS.isdisjoint(parts[:-1]):
            module = ".".join(parts).removesuffix(".__init__")
            tree = ast.parse(_read(path))
            yield [_section(name, node) for name, node in ((module, tree), *definitions(tree, module))]


def _section(name: str, node: Definition) -> list[str]:
    docstring = ast.get_docstring(node)
    if docstring is None:
        return []
    arguments = "" if isinstance(node, ast.Module | ast.ClassDef) else f"({ast.unparse(node.args)})"
    return [name + arguments, *paragraphs(docstring)]


def _paths() -> list[Path]:
    """Return the paths of all source files below the library folder, sorted."""
    paths = (path.relative_to(library_folder()) for path in library_folder().rglob("*.py"))
    # Packages are identifiers; site-packages, lib-dynload and the like are not, nor are they the library.
    return sorted(path for path in paths if all(part.isidentifier() for part in path.parts[:-1]))


def _read(path: Path) -> str:
    """Return the text of a file, or "" if it cannot be read: a broken link, a test of another encoding."""
    try:
        return (library_folder() / path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
