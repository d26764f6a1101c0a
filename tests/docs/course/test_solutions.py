"""Every chapter has exercises, easy to hard, and each solution is a program that runs as it stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.docs.python_blocks import python_blocks, run
from tests.source_files import PAGES, ROOT, name_of

COURSE = ROOT / "docs" / "course"
CHAPTERS = [path for path in PAGES if path.parent == COURSE and path.stem != "one_file"]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_the_solutions_run(chapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(COURSE)  # they run in the folder of the chapter
    solutions = python_blocks(name_of(chapter))
    assert len(solutions) >= 3
    for solution in solutions:
        assert "assert " in solution or "gradcheck.check(" in solution
        for program in COURSE.glob("*.py"):
            monkeypatch.delitem(sys.modules, program.stem, raising=False)
        run(solution)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_has_its_parts(chapter: Path) -> None:
    text = chapter.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    wanted = ["The question", "The idea", "The formula", "The source", "What goes wrong", "Exercises", "Where to read"]
    found = [heading for heading in headings if heading.startswith(tuple(wanted))]
    assert [next(each for each in wanted if heading.startswith(each)) for heading in found] == wanted
    assert re.findall(r"^\*\*\d \((\w+)\)\.\*\*", text, flags=re.MULTILINE) == ["easy", "medium", "hard"]
    folded = re.findall(r"<summary>(\w+)</summary>", text)
    assert folded == ["Answer"] * text.count("```{touch}") + ["Hint", "Solution"] * 3
    assert text.count("<details>") == text.count("</details>") == len(folded)
    assert "plt.show()" in text
    asked = re.findall(r"^> \*\*Predict, then run\.\*\* (?:.+\n> )*?.*\?\n\n```{code-cell}", text, flags=re.MULTILINE)
    assert len(asked) == text.count("**Predict, then run.**") >= 1  # a question that the cell below it answers
