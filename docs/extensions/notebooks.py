"""Write every chapter as a notebook, for readers who want to change its cells: the same words, cells and source."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from docs.extensions.chapters import as_page
from docs.extensions.notes import read_notes
from docs.extensions.source_parts import find

ROOT = Path(__file__).parents[2]
COURSE = ROOT / "docs" / "course"
DIRECTIVE = re.compile(r"^```{(?!code-cell)([a-z-]+)} *(.*)\n((?:.*\n)*?)```$", flags=re.MULTILINE)
OPTION = re.compile(r"^:[a-z-]+:.*\n", flags=re.MULTILINE)


def write_notebooks(folder: Path) -> list[Path]:
    """Write a notebook for each chapter into a folder; return their files."""
    import nbformat

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for chapter in sorted(COURSE.glob("*.md")):
        written.append(folder / f"{chapter.stem}.ipynb")
        nbformat.write(notebook_of(chapter, folder), written[-1])
    return written


def notebook_of(chapter: Path, folder: Path) -> Any:
    """Return a chapter as a notebook that will stand in a folder: what only a page can show is left out."""
    import nbformat
    from myst_nb.core.read import read_myst_markdown_notebook

    text = DIRECTIVE.sub(lambda found: plain(*found.groups()), as_page(chapter.read_text("utf-8")))
    text = re.sub(r"{[a-z]+}`([^`<]+?)(?: <[^`>]+>)?`", r"*\1*", text)  # a word of the glossary
    text = re.sub(r"\]\((\w+)\.md", r"](\1.ipynb", text)
    text = re.sub(r"\]\((\.\./[^)]+)\)", lambda found: f"]({path_from(folder, COURSE / found[1])})", text)
    notebook = read_myst_markdown_notebook(text)
    places = [str(place) for place in (COURSE, ROOT, ROOT / "docs" / "extensions")]
    move = f"os.chdir({places[0]!r})  # where the files of the course are"
    begin = f"import os\nimport sys\n\n{move}\nsys.path[:0] = {places}"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begin))
    return notebook


def path_from(folder: Path, target: Path) -> str:
    """Return the path of a file as a link in a folder needs it; the absolute one if it is on another drive."""
    try:
        return Path(os.path.relpath(target, folder)).as_posix()
    except ValueError:  # on Windows
        return target.resolve().as_posix()


def plain(directive: str, argument: str, content: str) -> str:
    """Return a directive as Markdown that needs no Sphinx: source as it stands in its file, with its notes below it."""
    if directive == "annotate":
        excerpt = find(argument, ROOT)
        code = "\n".join(excerpt.text.splitlines()[excerpt.first - 1 : excerpt.last])
        notes = [f"- `{note.line}` {note.text}" for note in read_notes(OPTION.sub("", content).splitlines())]
        return "\n".join([f"```python\n# {excerpt.path.relative_to(ROOT).as_posix()}\n{code}\n```\n", *notes])
    if directive == "literalinclude":
        options = dict(re.findall(r'^:([a-z-]+): "?(.*?)"?$', content, flags=re.MULTILINE))
        _, begin, rest = (COURSE / argument).read_text("utf-8").partition(options["start-at"])
        return f"```{options['language']}\n{begin}{rest.partition(options['end-before'])[0]}```"
    if directive == "code-block":
        return f"```{argument}\n{OPTION.sub('', content).lstrip()}```"
    return ""  # a figure that scripts build
