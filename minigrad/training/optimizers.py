"""The optimizer of a run."""

from __future__ import annotations

from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layers import Embedding
from minigrad.optim import AdamW, Muon
from minigrad.training.settings import RunSettings


def optimizer_of(model: LanguageModel, settings: RunSettings) -> AdamW:
    """Return the optimizer that the settings name; Muon gets the matrices within the layers."""
    parameters, decay = model.parameters(), settings.weight_decay
    if settings.optimizer == "adamw":
        return AdamW(parameters, weight_decay=decay)
    tables = {id(module.weight) for _, module in model.named_modules() if isinstance(module, Embedding)}
    tables.add(id(model.head()))
    matrices = [each for each in parameters if each.ndim == 2 and id(each) not in tables]
    return Muon(parameters, matrices=matrices, weight_decay=decay)
