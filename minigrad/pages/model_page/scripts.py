"""The scripts of the page, which are read from the folder `script` and joined."""

from __future__ import annotations

from pathlib import Path

ENGINE = ("kernels", "matrices", "attention", "machine", "reader")
"""What runs the program of a model."""

WRITING = ("signs", "tokenizer", "sampler")
"""What turns text to tokens, and logits to the next token."""

DRAWING = ("drawing",)
"""What draws a text whose tokens are coloured, and their rivals."""

FOLDER = Path(__file__).with_name("script")
STYLE = FOLDER / "style.css"


def joined(*names: str, folder: Path = FOLDER) -> str:
    """Return scripts by name, one after the other."""
    return "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in names)
