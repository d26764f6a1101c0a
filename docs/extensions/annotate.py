"""The directive `annotate`: the source of a module, class or function, with its prose on the left of its code.

    ```{annotate} minigrad.ops.softmax.softmax
    ```

Docstrings and comments become Markdown with formulas; the code beside them is that of the file, with its line numbers.
A name that the source does not have is an error of the build. Notes beside groups of lines can be added (`notes`).
Styles are in docs/static/course.css.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from docs.extensions.notes import NoteError, noted_parts, read_notes
from docs.extensions.source_parts import Excerpt, NotFoundError, Part, find

ROOT = Path(__file__).parents[2]


class Annotate(SphinxDirective):
    """Lay the prose of an object of the source beside its code."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"code": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return one block: a heading that names the file, then a row for each part."""
        try:
            excerpt = find(self.arguments[0], ROOT)
            parts = noted_parts(excerpt, read_notes(self.content), self.options.get("code", ""))
        except (NotFoundError, NoteError) as error:
            raise self.error(str(error)) from None
        self.env.note_dependency(str(excerpt.path))
        block = annotated(self, excerpt, parts)
        block.insert(0, nodes.raw("", heading(excerpt), format="html"))
        return [block]


def annotated(
    directive: SphinxDirective, excerpt: Excerpt, parts: Sequence[Part], names: Mapping[int, str] | None = None
) -> nodes.container:
    """Return a block with a row for each part of an excerpt; `names` are the lines that can be linked to."""
    block = nodes.container(classes=["annotate"])
    code = highlighted(excerpt.text)
    for part in parts:
        row = nodes.container(classes=["annotate-row"])
        prose = nodes.container(classes=["annotate-prose"])
        prose += directive.parse_text_to_nodes(part.prose)
        row += prose
        row += nodes.raw("", code_html(part.lines, code, names or {}), format="html")
        block += row
    return block


def heading(excerpt: Excerpt) -> str:
    """Return the name of the file and the lines that are shown."""
    name = excerpt.path.relative_to(ROOT).as_posix()
    return f'<p class="annotate-file">{html.escape(name)}, lines {excerpt.first} to {excerpt.last}</p>'


def highlighted(text: str) -> list[str]:
    """Return the lines of a file with its words marked for colours; lexed as a whole, so that strings end rightly."""
    formatter: HtmlFormatter[str] = HtmlFormatter(nowrap=True)
    return highlight(text, PythonLexer(stripnl=False), formatter).splitlines()


def code_html(numbers: list[int], lines: list[str], names: Mapping[int, str]) -> str:
    """Return lines of code with their numbers, which are no part of the text that a reader copies.

    A line that has one of the `names` can be linked to by it.
    """
    if not numbers:
        return ""
    # A region that scrolls needs a place in the order of the keyboard, or it could not be scrolled without a mouse.
    anchors = {number: f' id="{names[number]}"' for number in numbers if number in names}
    rows = "".join(
        f'<span class="line" data-line="{number}"{anchors.get(number, "")}>{lines[number - 1]}\n</span>'
        for number in numbers
    )
    label = f"lines {numbers[0]} to {numbers[-1]}"
    return (
        f'<div class="annotate-code highlight"><pre tabindex="0" role="region" aria-label="{label}">{rows}</pre></div>'
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("annotate", Annotate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
