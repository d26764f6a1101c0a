"""The page answers about fifty questions, each with a place in the source and something to read.

That the places exist is checked when the pages are built, and here without building them.
"""

from __future__ import annotations

import re

import pytest

from docs.extensions.source_parts import NotFoundError, definitions, find
from tests.source_files import ROOT

TEXT = (ROOT / "docs" / "find_your_way.md").read_text(encoding="utf-8")
ANSWERS = re.findall(r"^(\S.*\?)\n: (.*(?:\n  .*)*)$", TEXT, flags=re.MULTILINE)


def is_defined(name: str) -> bool:
    parts = name.split(".")
    for length in range(1, len(parts)):
        try:
            excerpt, module = find(".".join(parts[:length]), ROOT), ".".join(parts[:length])
        except NotFoundError:
            continue
        if name in definitions(excerpt, module).values():
            return True
    return False


def test_every_question_has_a_place_and_a_page() -> None:
    assert len(ANSWERS) == TEXT.count("?\n") >= 40
    for question, answer in ANSWERS:
        places = re.findall(r"\{source\}`([\w.]+)`", answer)
        assert places, question
        assert [name for name in places if not is_defined(name)] == [], question
        pages = re.findall(r"\]\(([\w/]+\.md)\)", answer)
        assert pages, question
        assert all((ROOT / "docs" / page).is_file() for page in pages), question


@pytest.mark.parametrize("name", ["minigrad.ops.softmax.softmux", "minigrad.ops.soft.softmax", "softmax"])
def test_a_place_can_be_missing(name: str) -> None:
    assert not is_defined(name)
