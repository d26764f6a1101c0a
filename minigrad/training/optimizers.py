"""The optimizer of a run."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from minigrad.autograd.tensor import Tensor
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layers import Embedding
from minigrad.optim import AdamW, Muon, Optimizer
from minigrad.optim.muon import flops_to_orthogonalise
from minigrad.training import costs
from minigrad.training.settings import RunSettings
from minigrad.typing import Array

NAMES = {"adamw": "AdamW", "muon": "Muon"}
"""The optimizers as people write them."""

_MOST_SHARE = 0.25  # of the FLOPs of a step, that Muon may take


def choose(model: LanguageModel, tokens: int, context: int) -> str:
    """Return the name of the optimizer for steps of so many tokens: Muon, unless it takes too large a share of a step.

    What Muon does takes the same time for any number of tokens, so it pays with small models and large steps.
    """
    extra = sum(flops_to_orthogonalise(*matrix.shape) for matrix in matrices_of(model))
    return "muon" if extra < _MOST_SHARE * tokens * costs.flops_per_token(model, context) else "adamw"


def optimizer_of(model: LanguageModel, settings: RunSettings) -> AdamW:
    """Return the optimizer that the settings name; Muon gets the matrices within the layers."""
    parameters, decay, betas = model.parameters(), settings.weight_decay, (settings.beta1, settings.beta2)
    if settings.optimizer == "adamw":
        return AdamW(parameters, betas=betas, weight_decay=decay)
    return Muon(parameters, matrices=matrices_of(model), betas=betas, weight_decay=decay)


def kept_elements(model: LanguageModel, settings: RunSettings) -> int:
    """Return how many elements a run keeps beside weights and gradients.

    AdamW keeps two moments of every parameter, Muon one of its matrices; an average of the weights is one more each.
    """
    alone = sum(math.prod(matrix.shape) for matrix in matrices_of(model)) if settings.optimizer == "muon" else 0
    return (2 if settings.ema is None else 3) * model.num_parameters() - alone


def moments_of(model: LanguageModel, optimizer: Optimizer) -> dict[str, Array]:
    """Return the moments of an optimizer by the names of the parameters, as in "norm.weight.m"; not copies."""
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    return {
        f"{name}.{kind}": array
        for name, arrays in zip(names, optimizer.moments(), strict=True)
        for kind, array in zip(optimizer.moment_names, arrays, strict=False)
    }


def without_unused(moments: Mapping[str, Array], own: Collection[str]) -> dict[str, Array]:
    """Return saved moments without those that were zero in every checkpoint and are not kept any more: Muon's v."""
    return {name: each for name, each in moments.items() if name in own or not name.endswith(".v") or each.any()}


def matrices_of(model: LanguageModel) -> list[Tensor]:
    """Return the matrices within the layers of a model: neither an embedding, nor the head."""
    tables = {id(module.weight) for _, module in model.named_modules() if isinstance(module, Embedding)}
    tables.add(id(model.head()))
    return [each for each in model.parameters() if each.ndim == 2 and id(each) not in tables]
