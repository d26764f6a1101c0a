"""A word of code stays on one line, unless it would be wider than a telephone."""

from __future__ import annotations

import re

import pytest

from tests.source_files import ROOT

pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]


def test_only_code_with_a_long_word_gets_the_class() -> None:
    from docutils import frontend, nodes, utils

    from docs.extensions.inline_code import LONGEST, LongWords

    document = utils.new_document("page", frontend.get_default_settings())
    texts = ["--top-k", "a" * LONGEST, "a " * LONGEST, "a" * (LONGEST + 1), f"--out {'a' * 99}"]
    document += [nodes.literal("", text) for text in texts]
    LongWords(document).run()
    assert [each["classes"] for each in document.findall(nodes.literal)] == [[], [], [], ["long"], ["long"]]


def test_the_style_excepts_that_class() -> None:
    style = (ROOT / "docs" / "static" / "course.css").read_text(encoding="utf-8")
    assert re.search(r"code:not\(\.long\) \.pre \{ white-space: nowrap; \}", style)
