"""What a figure that a reader changes consists of: its place in a page, its script, the engine and a trained model.

`docs.extensions.touch` puts it into the site. It is written apart because it needs no Sphinx: a figure can be opened
from files alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[1] / "static" / "figures"

MODEL = "vidya-v2-nano"
"""The trained model that the figures hold, by its name in models/pretrained."""

_ENGINE = "Machine, Reader, STEPS, Tokenizer, distribution, draw, softmax, uniform"
"""What the figures use of the engine."""


def place_of(name: str) -> str:
    """Return the markup of a figure's place, with a bar where its text belongs."""
    return f'<figure class="touch" data-figure="{name}" hidden>|</figure>'


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
