"""The model families: build, count, load and grow a model by name.

model = models.build("vidya-v2", size="nano", vocab_size=4096, seed=0)
models.count("vidya-v2", "2.0")        # 124,635,456, and nothing is allocated
model = models.load("runs/vidya-v2-nano")
model = models.grow("runs/vidya-v2-2.0", size="2.1")      # wider, with the same output

The names of families and sizes (`models.names`) are known at once; `models.registry`, which holds the models
themselves, is imported when one of its functions is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from models.names import LAPTOP_SIZES, ladder

if TYPE_CHECKING:
    from models.registry import (
        FAMILIES,
        base_of,
        build,
        configure,
        count,
        for_training,
        grow,
        initial_weights_for,
        load,
        skeleton,
        smallest_published,
        start_from,
        variant,
    )

__all__ = [
    "FAMILIES",
    "LAPTOP_SIZES",
    "base_of",
    "build",
    "configure",
    "count",
    "for_training",
    "grow",
    "initial_weights_for",
    "ladder",
    "load",
    "skeleton",
    "smallest_published",
    "start_from",
    "variant",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("models.registry"), name)
    raise AttributeError(f"module 'models' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names that are imported when they are first used, too."""
    return sorted({*globals(), *__all__})
