"""Generating text: from logits to the next token, and on to a stream of text.

`write` returns a text, `generate` the ids of its tokens one by one. They are imported when they are first used, so that
the command line can read the settings without waiting for NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minigrad.generation.sampling import Sampling, generate
    from minigrad.generation.writing import write

__all__ = ["Sampling", "generate", "write"]

_HOMES = {"Sampling": "sampling", "generate": "sampling", "write": "writing"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"minigrad.generation.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'minigrad.generation' has no attribute {name!r}")
