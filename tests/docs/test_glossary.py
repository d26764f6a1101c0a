"""The glossary is in order, and chapters link to its words; the build checks that each link has its entry."""

from __future__ import annotations

import re

from tests.source_files import PAGES, ROOT


def test_the_words_are_in_order_and_each_has_one_entry() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("```{glossary}\n")[2]
    terms = re.findall(r"^(\w.*)$", text, flags=re.MULTILINE)
    assert len(terms) > 60
    assert terms == sorted(set(terms))


def test_chapters_use_its_words() -> None:
    chapters = [page.stem for page in PAGES if page.parent.name == "course" and "{term}`" in page.read_text("utf-8")]
    assert {"attention", "derivative", "softmax"} <= set(chapters)
