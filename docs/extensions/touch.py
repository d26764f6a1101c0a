"""The directive `touch`: a figure that a reader changes, built by a script of docs/static/figures.

    ```{touch} descent
    Drag the point. *At which rate does SGD leave the valley?*
    ```

The text says what to do. It is shown with the figure, so neither is there where scripts do not run; the picture that a
cell of the chapter draws is there in any case. A page loads the scripts of its own figures and no others. A trained
model and the engine of `minigrad.pages.model_page` are on the site once; a figure loads them when it comes into view.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from docs.extensions.figure_files import SCRIPTS, files, place_of


class Touch(SphinxDirective):
    """Put a figure into the page."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the place of the figure, with the text in it."""
        name = self.arguments[0]
        if name == "shared" or not (SCRIPTS / f"{name}.js").exists():
            raise self.error(f"there is no figure {name!r} in docs/static/figures")
        begin, end = place_of(name).split("|")
        opened = nodes.raw("", begin, format="html", figure=name)
        return [opened, *self.parse_content_to_nodes(), nodes.raw("", end, format="html")]


def figures_of(document: nodes.document) -> list[str]:
    """Return the figures of a page, each once."""
    return list(dict.fromkeys(node["figure"] for node in document.findall(nodes.raw) if "figure" in node))


def add_scripts(app: Sphinx, page: str, template: str, context: Any, document: nodes.document | None) -> None:
    """Load the scripts and styles of the figures in the pages that have some."""
    if document is not None and (names := figures_of(document)):
        app.add_css_file("figures/figures.css")
        for name in ("shared", *names):
            app.add_js_file(f"figures/{name}.js", loading_method="defer")


def write_files(app: Sphinx, error: Exception | None) -> None:
    """Write what the figures load on demand: the engine, the tokenizer and the weights."""
    if error is None and app.builder.format == "html":
        folder = Path(app.outdir) / "_static" / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files():
            (folder / name).write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, the scripts of each page, and the files of the site."""
    app.add_directive("touch", Touch)
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
