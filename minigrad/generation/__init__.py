"""Generating text: from logits to the next token, and on to a stream of text.

`write` returns a text and `write_batch` several; `stream` yields the tokens of one or many as they are drawn.
`Sampling` holds the settings of all three. They are imported when they are first used, so that the command line can
read the settings without waiting for NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minigrad.generation.continuation import Token
    from minigrad.generation.decoding import stream, write, write_batch
    from minigrad.generation.settings import Sampling

__all__ = ["Sampling", "Token", "stream", "write", "write_batch"]

_FILES = {"Sampling": "settings", "Token": "continuation"}  # the other names are in decoding.py


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(f"minigrad.generation.{_FILES.get(name, 'decoding')}"), name)
    raise AttributeError(f"module 'minigrad.generation' has no attribute {name!r}")
