"""The examples in docstrings of benchmarks and of what builds the pages hold; pytest finds those of the packages."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.source_files import BENCHMARKS, DOCS, imports_of, module_of, name_of

WITH_EXAMPLES = [path for path in BENCHMARKS + DOCS if ">>> " in path.read_text(encoding="utf-8")]
WITH_SPHINX = [pytest.mark.docs, pytest.mark.filterwarnings("default")]


def needs_sphinx(path: Path) -> bool:
    return any(name.startswith("sphinx") for name, _ in imports_of(path))


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=WITH_SPHINX if needs_sphinx(path) else ()) for path in WITH_EXAMPLES], ids=name_of
)
def test_the_examples_of_a_file_hold(path: Path) -> None:
    found = doctest.testmod(importlib.import_module(module_of(path)), optionflags=doctest.ELLIPSIS)
    assert found.attempted
    assert not found.failed
