"""A page is whole, and text on it is only text."""

from __future__ import annotations

import re

from minigrad.pages.page import escape, page
from tests.browser import needs_a_browser, started
from tests.pages.contrast import contrast


def test_a_page_has_title_body_and_style_and_refers_to_nothing():
    text = page("a < b", "<p>body</p>", ".own { margin: 0; }")
    assert text.startswith("<!doctype html>")
    assert "<title>a &lt; b</title>" in text
    assert "<p>body</p>" in text
    assert ".own { margin: 0; }" in text
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text


def test_text_cannot_become_markup_or_leave_an_attribute():
    assert escape('<b> "x" \x1b') == "&lt;b&gt; &quot;x&quot; \ufffd"
    assert escape(7) == "7"


def test_text_stands_out_from_light_and_dark_paper():
    schemes = [
        dict(re.findall(r"--(\w+): (#\w+);", rules)) for rules in re.findall(r":root {(.*?)}", page("", ""), re.S)
    ]
    assert len(schemes) == 2
    for colours in schemes:
        assert all(contrast(colours["paper"], colours[name]) >= 4.5 for name in ("ink", "soft", "link"))


@needs_a_browser
def test_a_long_path_in_the_heading_does_not_widen_a_page(tmp_path):
    path, file = "/a" + 99 * "_folder", tmp_path / "page.html"
    file.write_text(page("Run", f"<h1>{path}</h1><p>Trained on {path}.</p>"), encoding="utf-8")
    with started(tmp_path / "profile") as browser:
        browser.resize(360, phone=True)
        browser.open(file)
        assert browser.run("document.documentElement.scrollWidth") == 360
