"""The models that runs train by default, for the laws that must hold where users are."""

from __future__ import annotations

from typing import Any

import models
from minigrad.nn.language_model import LanguageModel


def build_default(family: str, seed: int = 0, **changes: Any) -> LanguageModel:
    """Build the model of size nano that a run of the family begins with."""
    model = models.for_training(family, "nano", **changes)
    model.initialise(seed)
    return model
