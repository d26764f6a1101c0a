"""The directive `touch`: a figure that a reader changes, built by a script of docs/static/figures.

    ```{touch} descent
    Drag the point. *At which rate does SGD leave the valley?*
    ```

The text says what to do. It is shown with the figure, so neither is there where scripts do not run; the picture that a
cell of the chapter draws is there in any case. A page loads the scripts of its own figures and no others. A trained
model and the engine of `minigrad.pages.model_page` are on the site once; a figure loads them when it comes into view.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SCRIPTS = Path(__file__).parents[1] / "static" / "figures"

MODEL = "vidya-v2-nano"
"""The trained model that the figures hold, by its name in models/pretrained."""

_ENGINE = "Machine, Reader, STEPS, Tokenizer, distribution, draw, softmax, uniform"
"""What the figures use of the engine."""


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


def place_of(name: str) -> str:
    """Return the markup of a figure's place, with a bar where its text belongs."""
    return f'<figure class="touch" data-figure="{name}" hidden>|</figure>'


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


def files() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file that figures load on demand."""
    yield "engine.js", engine()
    yield from trained(MODEL)


def engine() -> str:
    """Return the engine as a function, inside which its names cannot meet those of other scripts of the page."""
    from minigrad.pages.model_page.scripts import ENGINE, WRITING, joined

    return f"const Engine = (() => {{\n{joined(*ENGINE, *WRITING)}\nreturn {{ {_ENGINE} }};\n}})();\n"


def trained(folder: str | Path) -> list[tuple[str, str]]:
    """Return the files of a trained model, its tokenizer and its weights in int8, with their names."""
    import models
    import tokenizer
    from minigrad.generation.decoding import document
    from minigrad.pages.model_page.export import export
    from tokenizer.formats.web_page import for_web_page

    tok = tokenizer.load(folder)
    table, weights = export(models.load(folder, quantize="int8"))
    words = for_web_page(tok.vocabulary) | {"begin": document(tok, "")}
    model = {"table": table, "bytes": base64.b64encode(weights).decode()}
    return [("words.js", f"const Words = {_json(words)};\n"), ("weights.js", f"const Trained = {_json(model)};\n")]


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, the scripts of each page, and the files of the site."""
    app.add_directive("touch", Touch)
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
