"""What pages are written in: formulas that Markdown does not break up, and colours that the pages have."""

from __future__ import annotations

import ast
import re

import pytest

from tests.source_files import FILES, PAGES, ROOT, name_of

FORMULA = re.compile(r"(?<![\\$`])\$(?!\$)([^$`]+)(?<!\\)\$|\$\$([^$]+)\$\$")
ITEM = re.compile(r"\n[ \t]*(?:[-+*]|\d+[.)])[ \t]")
"""A line that Markdown takes for an item of a list, in the middle of a formula too."""


def broken_formulas(text: str) -> list[str]:
    return [found[0] for found in FORMULA.finditer(text) if ITEM.search(found[0])]


def docstrings() -> list[tuple[str, str]]:
    described = ast.Module | ast.ClassDef | ast.FunctionDef
    trees = [(name_of(path), ast.parse(path.read_text(encoding="utf-8"))) for path in FILES]
    nodes = [(name, node) for name, tree in trees for node in ast.walk(tree) if isinstance(node, described)]
    return [(name, text) for name, node in nodes if (text := ast.get_docstring(node))]


def test_no_line_of_a_formula_begins_like_an_item_of_a_list() -> None:
    texts = docstrings() + [(name_of(page), page.read_text(encoding="utf-8")) for page in PAGES]
    assert sum(len(FORMULA.findall(text)) for _, text in texts) > 500
    assert not [(name, formula) for name, text in texts for formula in broken_formulas(text)]


@pytest.mark.parametrize("text", ["$a +\n- \\beta b$", "$$ a\n  + b $$", "$a\n    2. b$"])
def test_a_formula_that_markdown_breaks_up_is_noticed(text: str) -> None:
    assert broken_formulas(text)


def test_every_colour_by_number_is_one_of_the_cycle() -> None:
    style = (ROOT / "docs" / "matplotlibrc").read_text(encoding="utf-8")
    cycle = re.findall(r'"[0-9a-f]{6}"', style)
    for path in [*PAGES, *(ROOT / "docs").rglob("*.py")]:
        numbers = [int(number) for number in re.findall(r"""["']C(\d+)["']""", path.read_text(encoding="utf-8"))]
        assert all(number < len(cycle) for number in numbers), name_of(path)  # a larger one is an earlier colour again
