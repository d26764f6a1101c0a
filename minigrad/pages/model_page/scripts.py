"""The scripts of the page, which are read from the folder `script` and joined."""

from __future__ import annotations

from pathlib import Path

ENGINE = ("kernels", "matrices", "attention", "machine", "reader")
"""What runs the program of a model."""

WRITING = ("tokenizer", "sampler")
"""What turns text to tokens, and logits to the next token."""

FOLDER = Path(__file__).with_name("script")


def joined(*names: str) -> str:
    """Return scripts by name, one after the other."""
    return "\n".join((FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in names)
