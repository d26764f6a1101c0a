"""The blocks of Python in a page of text, as programs that can be run."""

from __future__ import annotations

import re
from typing import Any

from tests.source_files import ROOT


def python_blocks(page: str) -> list[str]:
    """Return the blocks between ```python and ``` of a page, each as it stands."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def run(program: str) -> dict[str, Any]:
    """Run a program and return its names."""
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(program, "a block of Python", "exec"), names)
    return names


def number_of_lines(program: str) -> int:
    """Return the number of lines that are not blank."""
    return sum(bool(line.strip()) for line in program.splitlines())
