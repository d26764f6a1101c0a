"""The documentation builds without a warning, runs every cell, and its pages load nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from docs import build

# What a browser fetches by itself; the address of a link (<a href>) is fetched only when a reader clicks on it.
LOADED = [
    r'<(?:script|img|iframe|source|video|audio|embed|input)\b[^>]*?\bsrc(?:set)?="([^"]*)"',
    r'<link\b(?![^>]*\brel="(?:canonical|next|prev|search|index)")[^>]*?\bhref="([^"]*)"',
    r'<(?:image|use)\b[^>]*?\bhref="([^"]*)"',
    r'<object\b[^>]*?\bdata="([^"]*)"',
    r"""url\(\s*["']?([^"')]*)""",
    r"""@import\s+["']([^"']*)""",
    r"""(?:fetch|importScripts|import)\(\s*["']([^"']*)""",
]


def loaded_from_elsewhere(text: str) -> list[str]:
    """Return the addresses in a page, style sheet or script that are loaded from another machine."""
    found = [address for pattern in LOADED for address in re.findall(pattern, text)]
    return [address for address in found if re.match(r"(?:[a-z]+:)?//", address)]


@pytest.mark.docs
@pytest.mark.filterwarnings("default")
def test_the_pages_build_and_need_no_network(tmp_path: Path) -> None:
    assert build.main(["--out", str(tmp_path)]) == 0
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > 10
    for file in [*pages, *tmp_path.rglob("*.css"), *tmp_path.rglob("*.js")]:
        assert not loaded_from_elsewhere(file.read_text(encoding="utf-8")), file
    assert "<math" in (tmp_path / "course" / "derivative.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        '<script async="async" src="https://example.org/a.js">',
        '<link rel="stylesheet" href="//example.org/a.css">',
        "body { background: url('http://example.org/a.png') }",
        '@import "https://example.org/a.css";',
        '<img alt="a" src="https://example.org/a.png">',
        'fetch("https://example.org/a.json")',
    ],
)
def test_an_address_that_is_loaded_is_noticed(text: str) -> None:
    assert loaded_from_elsewhere(text)


def test_links_and_own_files_are_no_loads() -> None:
    assert not loaded_from_elsewhere('<a href="https://example.org">a</a> <img src="_images/a.svg"> url(a.woff)')


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert build.main([]) == 2
    assert "pip install -e" in capsys.readouterr().err
