"""Every chapter reads well on a code host, and its page has nothing of what is only for there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.extensions.chapters import BANNER, BANNER_OF_A_GUIDE, HEADER, SHOWN, as_page
from docs.extensions.source_parts import find
from tests.source_files import ROOT

COURSE = sorted((ROOT / "docs" / "course").glob("*.md"))


@pytest.mark.parametrize("chapter", COURSE, ids=lambda path: path.stem)
def test_a_chapter_is_plain_markdown_with_a_banner_and_links_to_its_source(chapter: Path) -> None:
    text = chapter.read_text("utf-8")
    assert re.match(r"# .+\n\n" + re.escape(BANNER), text), "the title, then the banner"
    for found in SHOWN.finditer(text):
        _, shown, _, name, target = found.group(0, 1, 2, 3, 4)
        path = find(shown, ROOT).path
        assert name == path.relative_to(ROOT).as_posix(), f"below {shown} there must be a link to its file"
        assert (chapter.parent / target).resolve() == path
    page = as_page(text)
    assert page.startswith(HEADER)
    assert "Source: [" not in page
    assert BANNER not in page
    assert len(SHOWN.findall(page)) == text.count("```{annotate}") == len(SHOWN.findall(text))


@pytest.mark.parametrize("guide", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.stem)
def test_a_guide_that_only_the_build_completes_says_so(guide: Path) -> None:
    text = guide.read_text("utf-8")
    is_completed = "{claims}" in text or "{glossary}" in text or text.count("{source}`") > 5
    assert bool(re.match(r"# .+\n\n" + re.escape(BANNER_OF_A_GUIDE), text)) == is_completed
    assert BANNER_OF_A_GUIDE not in as_page(text)


def test_a_page_without_cells_stays_as_it_is() -> None:
    assert as_page("# A\n\n```{annotate} a.b\n```\n\nSource: [a](b)\n").count("Source: [a](b)") == 1
