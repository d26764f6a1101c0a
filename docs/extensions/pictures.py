"""What carries the argument of a chapter, as a picture for a code host, where no cell is run.

    ![The loss falls from 4.9 to 2.1 nats in 300 steps.](../pictures/course/softmax.svg)

The line stands below the cell that draws the figure, and says what the figure says of itself. Built pages have the
figure, so the line is left out there. `python docs/build.py --pictures` runs the cells up to each figure and writes its
file. The file holds a value that stands for these cells, so a test notices a picture of older code.
"""

from __future__ import annotations

import ast
import hashlib
import html
import io
import os
import re
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from docs.extensions.chapters import PICTURE
from docs.extensions.notebooks import COURSE, ROOT, notebook_of

FOLDER = ROOT / "docs" / "pictures" / "course"
CELL = re.compile(r"^```{code-cell} python\n((?:.*\n)*?)```$", flags=re.MULTILINE)
MARGIN, TOP, MOST_BYTES = 12, 42, 35_000
LETTER = 10  # pixels of a letter of a title, on average, in a wide font


class Picture(NamedTuple):
    """A figure of a chapter that is kept as a file."""

    chapter: Path
    description: str
    path: Path

    @property
    def title(self) -> str:
        """The title of the chapter, without what comes after a comma or a colon."""
        return re.split("[,:]", self.chapter.read_text("utf-8").partition("\n")[0].removeprefix("# "))[0]

    def cells(self) -> list[str]:
        """Return the cells of the chapter up to the one that draws the figure; raises ValueError if none does."""
        before = self.chapter.read_text("utf-8").partition(f"![{self.description}]")[0]
        cells: list[str] = CELL.findall(before)
        if not cells or self.description not in cells[-1]:
            raise ValueError(f"{self.chapter.name}: the cell above a picture must draw {self.description!r}")
        return cells

    def code(self) -> str:
        """Return the value that stands for these cells, without their comments and checks: those draw nothing."""
        source = "\n".join(re.sub(r"^:tags:.*\n", "", cell) for cell in self.cells())
        lines, drawn = source.splitlines(), list[str]()
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column].rstrip()
        for node in ast.parse(source).body:  # whose lines, unlike its fields, do not depend on the version of Python
            if not isinstance(node, ast.Assert):
                first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
                drawn += filter(None, lines[first - 1 : node.end_lineno])
        return hashlib.sha256("\n".join(drawn).encode()).hexdigest()[:8]


def pictures() -> list[Picture]:
    """Return the pictures of all chapters."""
    return [
        Picture(chapter, description, (COURSE / path).resolve())
        for chapter in sorted(COURSE.glob("*.md"))
        for description, path in PICTURE.findall(chapter.read_text("utf-8"))
        if path.startswith("../pictures/course/")
    ]


def write_pictures(*names: str) -> list[Path]:
    """Draw the pictures of these chapters, or of all, write their files, and return them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    chosen = [picture for picture in pictures() if not names or picture.chapter.stem in names]
    for picture in chosen:
        picture.path.write_text(drawn(picture), "utf-8", newline="\n")
    return [picture.path for picture in chosen]


def drawn(picture: Picture) -> str:
    """Run the cells up to a figure, and return the figure as a file of its own."""
    from nbclient import NotebookClient

    notebook: Any = notebook_of(picture.chapter, FOLDER)
    number = len(picture.cells()) + 1  # one more cell says where the files of the course are
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:number]
    looks = {"MPLBACKEND": "module://page_figures", "MATPLOTLIBRC": str(ROOT / "docs" / "matplotlibrc")}
    paths = [str(ROOT), str(ROOT / "docs" / "extensions"), os.environ.get("PYTHONPATH", "")]
    with mock.patch.dict(os.environ, looks | {"PYTHONPATH": os.pathsep.join(paths)}):
        NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(COURSE)}}).execute()
    outputs = [output.get("data", {}).get("text/html", "") for output in notebook.cells[-1].outputs]
    name = html.escape(picture.description)
    (figure,) = [each for each in outputs if f'aria-label="{name}"' in each]
    return as_file(picture, figure[figure.index("<svg") : figure.rindex("</svg>") + len("</svg>")])


def as_file(picture: Picture, figure: str) -> str:
    """Return a figure of a page, which has the colours of the page, with a background and colours of its own."""
    from benchmarks.pictures import page, placed

    figure, styles = _with_classes(figure)
    head, body = figure.split(">", 1)
    width, height = (float(each) for each in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', head)[0])
    head = re.sub(r' (?:width|height|role|aria-label|version|xmlns(?::xlink)?)="[^"]*"', "", head)
    links = ' xmlns:xlink="http://www.w3.org/1999/xlink"' if "xlink:" in body else ""
    inside = placed(f"{head.replace('<svg', f'<svg{links}')}>{body}", MARGIN, TOP, width, height)
    whole = page(picture.title, inside, height + TOP + MARGIN, max(width, LETTER * len(picture.title)) + 2 * MARGIN)
    style = "svg text { font-family: system-ui, sans-serif !important; fill: currentColor; }\n" + styles + "</style>"
    marked = f'data-code="{picture.code()}" aria-label="{html.escape(picture.description)}"'
    return re.sub(r'aria-label="[^"]*"', marked, whole, count=1).replace("</style>", style, 1)


def _with_classes(figure: str) -> tuple[str, str]:
    """Return a figure in which styles that occur often are classes, and the rules of these classes: it is smaller."""
    often = [style for style, count in Counter(re.findall(r' style="([^"]*)"', figure)).items() if count > 2]
    for number, style in enumerate(often):
        figure = figure.replace(f' style="{style}"', f' class="c{number}"')
    return figure, "".join(f".c{number} {{ {style} }}\n" for number, style in enumerate(often))
