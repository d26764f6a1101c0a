"""Excerpts of the source hold every line once, and each docstring and comment stands beside its code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.extensions.source_parts import NotFoundError, definitions, escaped, find, markdown, parts_of
from tests.source_files import FILES, ROOT, module_of

SOURCE = '''"""A module of $x^2$."""

import math

# Two lines
# of words.
PI = 3  # nearly


@cache
def area(r, *, round=False):
    """Compute the area.

    Shapes: () -> ().

    >>> area(1)
    3
    """
    # Why so?
    return PI * r**2


class Circle:
    """A circle."""

    def area(self):
        return area(1)
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes" / "round.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "shapes" / "__init__.py").write_text('"""Shapes."""\n', encoding="utf-8")
    return tmp_path


def test_a_module_in_parts(root: Path) -> None:
    parts = [(part.prose.strip(), part.lines) for part in parts_of(find("shapes.round", root))]
    assert parts == [
        ("A module of $x^2$.", [3]),
        ("Two lines\nof words.", [7]),
        ("Compute the area.\n\nShapes: () -> ().\n\n```pycon\n>>> area(1)\n3\n```", [10, 11]),
        ("Why so?", [20]),
        ("A circle.", [23, 25, 26, 27]),
    ]


def test_names_are_found(root: Path) -> None:
    function = find("shapes.round.area", root)
    assert (function.first, function.last) == (10, 20)  # with its decorator
    method = find("shapes.round.Circle.area", root)
    assert (method.first, method.last) == (26, 27)
    assert find("shapes", root).path.name == "__init__.py"


def test_definitions_have_the_number_of_their_first_line(root: Path) -> None:
    assert definitions(find("shapes.round", root), "shapes.round") == {
        7: "shapes.round.PI",
        10: "shapes.round.area",
        23: "shapes.round.Circle",
        26: "shapes.round.Circle.area",
    }


@pytest.mark.parametrize("name", ["shapes.square", "shapes.round.perimeter", "shapes.round.Circle.radius", "other"])
def test_a_name_that_is_not_there_is_an_error(name: str, root: Path) -> None:
    with pytest.raises(NotFoundError, match=name.rpartition(".")[2]):
        find(name, root)


@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name in ("ops", "autograd")], ids=module_of)
def test_no_line_of_code_is_lost_or_shown_twice(path: Path) -> None:
    excerpt = find(module_of(path), ROOT)
    lines = [number for part in parts_of(excerpt) for number in part.lines]
    assert lines == sorted(set(lines))
    text = path.read_text(encoding="utf-8").splitlines()
    hidden = [text[number - 1].strip() for number in range(1, len(text) + 1) if number not in lines]
    words = "\n".join(part.prose for part in parts_of(excerpt)).replace("\\*", "*").replace("\\<", "<")
    for line in hidden:
        words_of_line = line.strip('#" ').removeprefix('r"""').strip()
        assert words_of_line.replace("\\\\", "\\") in words.replace("\\\\", "\\"), line


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_formula_is_not_the_words_between_two_variables_of_the_environment(path: Path) -> None:
    prose = "\n".join(part.prose for part in parts_of(find(module_of(path), ROOT)))
    for formula in re.findall(r"``.+?``|`[^`]+`|(\$\$?[^$]+\$\$?)", prose, flags=re.DOTALL):
        assert not re.search("`|[A-Z]{4}", formula), formula


def test_arithmetic_is_not_markup_and_flags_are_code() -> None:
    assert escaped("a*b < `a*b` and $a<b$") == "a\\*b \\< `a*b` and $a<b$"
    assert escaped("Give --eval-every, not `--seed 1`; a -- b") == "Give `--eval-every`, not `--seed 1`; a -- b"
    assert markdown("Text.\nRaises E.") == "Text.\n\nRaises E."
