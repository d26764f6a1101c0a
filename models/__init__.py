"""The model families: build, count, load and grow a model by name.

    model = models.build("vidya-v2", size="nano", vocab_size=4096, seed=0)
    models.count("vidya-v2", "2.0")        # 124,635,456, and nothing is allocated
    model = models.load("runs/vidya-v2-nano")
    model = models.grow("runs/vidya-v2-2.0", size="2.1")      # wider, with the same output

The names of families and sizes (`models.names`) are known at once; `models.registry`, which holds the models
themselves, and `models.loading` are imported when one of their functions is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from models.names import LAPTOP_SIZES, ladder

if TYPE_CHECKING:
    from models.loading import grow, initial_weights_for, load, model_below, start_from
    from models.registry import (
        FAMILIES,
        build,
        configure,
        count,
        departures,
        for_training,
        recipe,
        skeleton,
        smallest_published,
        variant,
    )

__all__ = ["FAMILIES", "LAPTOP_SIZES", "build", "configure", "count", "for_training", "ladder", "skeleton"]
__all__ += [
    "departures",
    "grow",
    "initial_weights_for",
    "load",
    "model_below",
    "recipe",
    "smallest_published",
    "start_from",
    "variant",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'models' has no attribute {name!r}")
    in_loading = name in ("grow", "initial_weights_for", "load", "model_below", "start_from")
    return getattr(importlib.import_module("models.loading" if in_loading else "models.registry"), name)


def __dir__() -> list[str]:
    """List the names that are imported when they are first used, too."""
    return sorted({*globals(), *__all__})
