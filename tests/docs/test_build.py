"""The documentation builds without a warning, runs every cell, loads nothing from elsewhere, and fits its windows."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs import build
from tests.browser import Browser, needs_a_browser, started

# An address of another machine, where a page, a style or a script could load it: at the start of an attribute or of one
# of the parts of a list, or in quotation marks or brackets.
ELSEWHERE = r"((?:[a-z][a-z+.-]*:)?//[^\s\"'`<>)]+)"
IN_ATTRIBUTE = re.compile(rf"(?:^|[\s,;=\"'(]){ELSEWHERE}", re.IGNORECASE)
IN_CODE = re.compile(rf"[\"'`(]\s*{ELSEWHERE}", re.IGNORECASE)
FORMATS = re.compile(r"http://www\.w3\.org/(?:2000/svg|1999/xlink|1998/Math/MathML)")
"""Names of formats, which look like addresses; nobody loads them."""


class Loads(HTMLParser):
    """Collects the addresses of other machines in a page, except those that a reader has to click on."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if (tag, name) != ("a", "href") and value and not (name.startswith("xmlns") and FORMATS.fullmatch(value)):
                self.found += IN_ATTRIBUTE.findall(value)

    def handle_data(self, text: str) -> None:
        if self.cdata_elem:  # the text of a script or a style
            self.found += loaded_by_code(text)


def loaded_by_code(text: str) -> list[str]:
    """Return the addresses of other machines in a style sheet or a script, except in its comments of many lines."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return [each for each in IN_CODE.findall(text) if not FORMATS.match(each)]


def loaded_from_elsewhere(text: str) -> list[str]:
    """Return the addresses in a page that are loaded from another machine."""
    loads = Loads()
    loads.feed(text)
    return loads.found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "pages"
    assert build.main(["--out", str(folder)]) == 0
    return folder


@pytest.mark.docs
@pytest.mark.filterwarnings("default")
def test_the_pages_build_and_need_no_network(built: Path) -> None:
    pages = sorted(built.rglob("*.html"))
    assert len(pages) > 80
    for file in pages:
        assert not loaded_from_elsewhere(file.read_text(encoding="utf-8")), file
    for file in [*built.rglob("*.css"), *built.rglob("*.js")]:
        assert not loaded_by_code(file.read_text(encoding="utf-8")), file
    assert "<math" in (built / "course" / "derivative.html").read_text(encoding="utf-8")


FLAWS = """(() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (part) => part && part !== document.body
    && (getComputedStyle(part).overflowX !== "visible" || scrolls(part.parentElement));
  const wide = [...document.querySelectorAll("article *")]
    .filter((part) => part.getBoundingClientRect().right > width + 1 && !scrolls(part));
  const missing = [...document.images].filter((each) => !each.naturalWidth);
  const broken = [...document.querySelectorAll("merror, .problematic")];
  const clipped = [...document.querySelectorAll("article .formula")]
    .filter((part) => part.scrollHeight > part.clientHeight + 1);
  const read = (part) => !part.parentElement.closest("code, pre, math, script, style");
  const texts = document.createTreeWalker(document.querySelector("article") || document.body, NodeFilter.SHOW_TEXT);
  const raw = [];
  while (texts.nextNode()) {
    if (/\\\\[a-z]{2,}/i.test(texts.currentNode.data) && read(texts.currentNode)) {
      raw.push(texts.currentNode.parentElement);
    }
  }
  return [...wide, ...missing, ...broken, ...clipped, ...raw].map((part) => part.outerHTML.slice(0, 200));
})()"""
"""What is wider than the window without a way to scroll to it, pictures that are not there, and broken mathematics:
formulas that are clipped, or shown as the TeX that they were written in."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.mark.docs
@pytest.mark.filterwarnings("default")
@needs_a_browser
@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_asks_for_files_alone_and_shows_all_of_every_page(built: Path, browser: Browser, width: int) -> None:
    browser.resize(width, phone=width < 600)
    for page in sorted(built.rglob("*.html")):
        browser.open(page)
        assert [each for each in browser.requests if not each.startswith(("file:", "data:"))] == [], page
        assert browser.errors == [], page
        assert browser.run(FLAWS) == [], page


@pytest.mark.parametrize(
    "text",
    [
        '<script async="async" src="https://example.org/a.js"></script>',
        "<script src=//example.org/a.js></script>",
        '<link rel="stylesheet" href="//example.org/a.css">',
        '<link rel="preconnect" href="https://example.org">',
        '<img alt="a" src="a.png" srcset="a.png 1x, https://example.org/b.png 2x">',
        '<video poster="HTTPS://example.org/a.png"></video>',
        '<meta http-equiv="refresh" content="0; url=https://example.org">',
        '<base href="https://example.org/">',
        "<p style=\"background: url('http://example.org/a.png')\">",
        '<svg><use xlink:href="https://example.org/a.svg#b"/></svg>',
        '<style>@import "https://example.org/a.css";</style>',
        '<script>new Worker("https://example.org/a.js")</script>',
        "<script>const where = `wss://example.org`</script>",
    ],
)
def test_an_address_that_is_loaded_is_noticed(text: str) -> None:
    assert loaded_from_elsewhere(text)


def test_styles_and_scripts_are_read_too() -> None:
    assert loaded_by_code("body { background: url(http://example.org/a.png) }") == ["http://example.org/a.png"]
    assert loaded_by_code('fetch("https://example.org/a.json") /* "https://example.org" */')
    assert not loaded_by_code('url(a.woff) /* see "https://example.org" */ "http://www.w3.org/2000/svg"')


def test_links_own_files_and_names_of_formats_are_no_loads() -> None:
    assert not loaded_from_elsewhere(
        '<a href="https://example.org">a</a> <img src="_images/a.svg"> <code>"https://example.org"</code>'
        '<svg xmlns="http://www.w3.org/2000/svg"></svg> <style>p { background: url(a.woff) }</style>'
    )


@needs_a_browser
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ('<article><div style="width: 500px">wide</div></article>', "wide"),
        ('<article><img src="nowhere.png" alt="lost"></article>', "lost"),
        ("<article><math><merror>bad</merror></math></article>", "bad"),
        (
            '<article><div class="formula" style="height: 9px; overflow: auto; line-height: 2">tall</div></article>',
            "tall",
        ),
        (r"<article><ul><li>\beta D_t$ with</li></ul></article>", "beta"),
    ],
)
def test_a_flaw_of_a_page_is_noticed(browser: Browser, tmp_path: Path, body: str, word: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(f'<!doctype html><meta name="viewport" content="width=device-width">{body}', encoding="utf-8")
    browser.resize(360, phone=True)
    browser.open(page)
    assert [each for each in browser.run(FLAWS) if word in each]


@needs_a_browser
def test_a_request_and_a_failing_script_are_noticed(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!doctype html><script>fetch('http://127.0.0.1:9/a').catch(() => 0); lost()</script>", encoding="utf-8"
    )
    browser.open(page)
    assert "http://127.0.0.1:9/a" in browser.requests
    assert len(browser.errors) == 1
    assert "lost is not defined" in browser.errors[0]


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert build.main([]) == 2
    assert "pip install -e" in capsys.readouterr().err
