"""The pictures that chapters have on a code host: small, described, and drawn by the cells that the chapter has now."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.extensions.chapters import PICTURE, as_page
from docs.extensions.pictures import FOLDER, MOST_BYTES, Picture, as_file, drawn, pictures
from tests.source_files import ROOT

TEXT = "{http://www.w3.org/2000/svg}text"
CHAPTER = """# A title

```{code-cell} python
:tags: [hide-input]
import matplotlib.pyplot as plt

plt.figure("A line that rises from 1 to 3.")
plt.plot([1, 2, 3])
```

![A line that rises from 1 to 3.](../pictures/course/own.svg)
"""


def texts(svg: str) -> list[str | None]:
    """Return what can be read in a picture."""
    return sorted(each.text or "" for each in ElementTree.fromstring(svg).iter(TEXT))


def test_each_picture_is_small_described_and_of_the_cells_that_are_there() -> None:
    found = pictures()
    assert len(found) > 20
    assert sorted(picture.path for picture in found) == sorted(FOLDER.iterdir())
    for picture in found:
        again = f"python docs/build.py --pictures {picture.chapter.stem}"
        svg = picture.path.read_text("utf-8")
        root = ElementTree.fromstring(svg)
        assert root.get("data-code") == picture.code(), f"its cells have changed; draw it again: {again}"
        assert root.get("aria-label") == picture.description
        assert len(svg) < MOST_BYTES, picture.path
        assert "prefers-color-scheme: dark" in (root[0].text or "")
        assert not re.search(r"#000000|href=\"http", svg)


def test_pictures_that_chapters_share_with_the_first_page_are_there() -> None:
    for chapter in (ROOT / "docs" / "course").glob("*.md"):
        for _, path in PICTURE.findall(chapter.read_text("utf-8")):
            assert (chapter.parent / path).exists(), path


@pytest.mark.docs
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["attention", "derivative"])
def test_a_picture_shows_what_the_cells_draw(name: str) -> None:
    (picture,) = [each for each in pictures() if each.chapter.stem == name]
    kept, now = picture.path.read_text("utf-8"), drawn(picture)
    assert texts(kept) == texts(now)
    assert [kept.count(mark) for mark in ("<path", "<use", "<image")] == [
        now.count(mark) for mark in ("<path", "<use", "<image")
    ]


def test_a_long_title_widens_a_picture(tmp_path: Path) -> None:
    figure = '<svg viewBox="0 0 200 100" aria-label="A line."><path d="M0 0H200"/></svg>'
    picture = Picture(tmp_path / "chapter.md", "A line that rises from 1 to 3.", tmp_path / "own.svg")
    widths = []
    for title in ("Short", "A title that is longer than its figure is wide"):
        picture.chapter.write_text(CHAPTER.replace("A title", title), "utf-8")
        widths.append(float(ElementTree.fromstring(as_file(picture, figure)).get("width", "")))
    assert widths[0] == 224
    assert widths[1] > 400


def test_a_built_page_has_the_figure_alone() -> None:
    assert "![" not in as_page(CHAPTER)
    assert "plt.plot([1, 2, 3])" in as_page(CHAPTER)


def test_a_check_changes_no_picture_and_a_changed_cell_does(tmp_path: Path) -> None:
    def code(text: str) -> str:
        (tmp_path / "chapter.md").write_text(text, "utf-8")
        return Picture(tmp_path / "chapter.md", "A line that rises from 1 to 3.", tmp_path / "own.svg").code()

    before = code(CHAPTER)
    assert code(CHAPTER.replace("[1, 2, 3])\n", "[1, 2, 3])  # a line\nassert 1 < 3\n")) == before
    assert code(CHAPTER.replace("[1, 2, 3]", "[1, 2, 4]")) != before
    with pytest.raises(ValueError, match="the cell above a picture must draw"):
        code(CHAPTER.replace('figure("A line', 'figure("Another line'))
