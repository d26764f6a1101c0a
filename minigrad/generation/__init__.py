"""Generating text: from logits to the next token, and on to a stream of text.

`write` returns a text and `write_batch` several; `stream` yields the tokens of one or many as they are drawn.
`Sampling` holds the settings of all three. They are imported when they are first used, so that the command line can
read the settings without waiting for NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minigrad.generation.decoding import stream
    from minigrad.generation.settings import Sampling
    from minigrad.generation.texts import Token
    from minigrad.generation.writing import write, write_batch

__all__ = ["Sampling", "Token", "stream", "write", "write_batch"]

_HOMES = {"Sampling": "settings", "Token": "texts", "stream": "decoding", "write": "writing", "write_batch": "writing"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"minigrad.generation.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'minigrad.generation' has no attribute {name!r}")
