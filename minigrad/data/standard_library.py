"""The standard library of the running Python as training text: every installation has it."""

from __future__ import annotations

import ast
import itertools
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from minigrad.data.docstrings import (
    Section,
    docstrings_of,
    kept,
    modules,
    paragraphs,
    python_files,
    read,
    without_repeats,
)

TABLES = {"encodings", "pydoc_data"}  # tables of numbers, and one literal of 800 kB


@cache
def library_folder() -> Path:
    """Return the folder of the standard library, which need not be where the interpreter is."""
    return Path(sysconfig.get_path("stdlib"))


def documentation() -> list[str]:
    """Return the language reference, one document per topic, then the docstrings, one document per module.

    A paragraph that occurred anywhere before is dropped. About 2.4 MB. The first call parses for some seconds; the
    result is kept in the cache folder.
    """
    folder = library_folder()

    def documents() -> Iterator[list[Section]]:
        yield from _topics()
        yield from itertools.starmap(docstrings_of, modules(folder, python_files(folder)))

    made_by = f"{sys.version} {folder} {Path(__file__).read_text(encoding='utf-8')}"
    return kept(made_by, lambda: without_repeats(documents(), set()))


def source() -> list[str]:
    """Return the source files, exact copies once: 30 MB, or 9 MB where the library has no tests installed."""
    folder = library_folder()
    texts = (read(folder / path) for path in python_files(folder) if path.parts[0] not in TABLES)
    return list(dict.fromkeys(text for text in texts if text.strip()))


def _topics() -> Iterator[list[Section]]:
    module = ast.parse(read(library_folder() / "pydoc_data" / "topics.py"))
    for statement in module.body:
        if isinstance(statement, ast.Assign):  # topics = {name: text, ...}
            topics: dict[str, str] = ast.literal_eval(statement.value)
            for _, text in sorted(topics.items()):
                yield [paragraphs(text)]
