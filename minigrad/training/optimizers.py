"""The optimizer of a run, and the names of its moments in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.distributed import pipeline
from minigrad.distributed.world import ALONE, World
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layers import Embedding, Linear
from minigrad.nn.parameter import Parameter
from minigrad.optim import SGD, AdamW, Muon, Optimizer
from minigrad.optim.muon import flops_to_orthogonalise
from minigrad.training.parallel import divides_layers
from minigrad.training.settings import ChosenOptimisation, RunSettings
from minigrad.typing import Array

NAMES = {"adamw": "AdamW", "muon": "Muon", "sgd": "SGD"}
"""The optimizers as people write them."""

WEIGHT_DECAY = {"adamw": 0.1, "muon": 0.1, "sgd": 1e-4}
"""The weight decay of each: SGD adds it to a gradient, which is small; the others add it to an update of about 1."""

BETA2 = {"adamw": 0.95, "muon": 0.99}
"""AdamW's decay of the mean of the squared gradient, alone and beside Muon.

Beside Muon it updates the embedding and the vectors, and a row of the embedding seldom has a gradient. There 0.99 was
better for nano (docs/results_learning.md, "Two heads of 48"); for AdamW alone it was not tried.
"""

LEARNING_RATE = {"adamw": 1.0, "muon": 1.0, "sgd": 20.0}
"""The learning rate of each, relative to AdamW's: SGD does not divide a gradient by its usual size."""


def update_flops_per_token(name: str, model: LanguageModel, tokens: int) -> float:
    """Return the FLOPs of an optimizer's matrix products per token, in steps of `tokens` tokens."""
    if name != "muon":
        return 0.0
    return sum(flops_to_orthogonalise(*matrix.shape) for matrix in matrices_of(model)) / tokens


def optimizer_of(model: LanguageModel, settings: RunSettings, world: World = ALONE) -> Optimizer:
    """Return the optimizer that the settings name, divided among processes: in a pipeline, each updates its layers."""
    optimizer = _optimizer(model.parameters(), matrices_of(model), settings)
    optimizer.divide_among(world, pipeline.owners(model, world.size) if divides_layers(settings, world) else None)
    return optimizer


def _optimizer(parameters: list[Parameter], matrices: list[Tensor], settings: ChosenOptimisation) -> Optimizer:
    decay = settings.weight_decay
    if settings.optimizer == "sgd":
        return SGD(parameters, momentum=settings.momentum, weight_decay=decay)
    assert settings.beta2 is not None
    betas = settings.beta1, settings.beta2
    if settings.optimizer == "adamw":
        return AdamW(parameters, betas=betas, weight_decay=decay)
    return Muon(parameters, matrices=matrices, betas=betas, weight_decay=decay)


def compile_update(settings: RunSettings) -> None:
    """Compile the kernels of the optimizer by an update of a small layer: a short budget measures its first step."""
    layer = Linear(2, 2)
    layer.initialise(dtype=settings.dtype)
    for parameter in layer.parameters():
        parameter.grad = parameter.data.copy()
    _optimizer(layer.parameters(), [layer.weight], settings).step(lr=0.0, max_norm=1.0)


def kept_elements(model: LanguageModel, settings: ChosenOptimisation) -> int:
    """Return how many elements the optimizers of all processes keep together, beside weights and gradients."""
    moments = int(settings.momentum > 0) if settings.optimizer == "sgd" else 2
    without_second = parameters_in_layers(model) if settings.optimizer == "muon" else 0
    return moments * model.num_trained() - without_second


def bytes_kept(model: LanguageModel, settings: RunSettings, world: World) -> tuple[int, int]:
    """Return the bytes that a process keeps beyond AdamW's moments, and the bytes of the copy for checkpoints."""
    moments, averages = kept_elements(model, settings), (settings.ema is not None) * model.num_trained()
    more = (moments - 2 * model.num_trained()) / world.size + averages  # each process has all averages
    written = moments + averages + model.num_trained()
    return int(more * settings.itemsize), (world.rank == 0) * written * settings.itemsize


def parameters_in_layers(model: LanguageModel) -> int:
    """Return the number N of the scaling law: the parameters of the matrices within the layers."""
    return sum(matrix.size for matrix in matrices_of(model))


def matrices_of(model: LanguageModel) -> list[Tensor]:
    """Return the matrices within the layers of a model that are trained: no embedding, no rows of one, no head."""
    modules = (module for _, module in model.named_modules() if isinstance(module, Embedding))
    tables = {id(parameter) for module in modules for parameter in module.parameters()}
    return [each for each in model.parameters() if each.ndim == 2 and each.requires_grad and id(each) not in tables]


def load_moments(model: LanguageModel, optimizer: Optimizer, moments: Mapping[str, Array], updates: int) -> None:
    """Set the moments of an optimizer, named as by `moments_of`, and its number of updates; what is missing is 0.

    Of a parameter, all moments are taken or none: Muon keeps no second moments of matrices, and AdamW, which divides
    the first by the root of the second, would move their weights far.
    """
    named = named_moments(model, optimizer)
    kept = [[f"{name}.{kind}" for kind in kinds] for name, _, kinds in named]
    found = [
        [moments[name] if moments.keys() >= set(names) else np.zeros(each.shape) for name in names]
        for names, (_, each, _) in zip(kept, named, strict=True)
    ]
    optimizer.load_moments(found)
    optimizer.steps = updates


def moments_of(model: LanguageModel, optimizer: Optimizer) -> dict[str, Array]:
    """Collect the optimizer's moments in the first process, keyed by names such as "norm.weight.m".

    All processes call it together; the others get an empty dictionary.
    """
    named = zip(named_moments(model, optimizer), optimizer.moments(), strict=False)
    return {
        f"{name}.{kind}": array for (name, _, kinds), arrays in named for kind, array in zip(kinds, arrays, strict=True)
    }


def named_moments(model: LanguageModel, optimizer: Optimizer) -> list[tuple[str, Parameter, tuple[str, ...]]]:
    """Return each parameter that is trained, with its name and the names of its moments."""
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    return [(name, each, optimizer.moments_kept(each)) for name, each in named]
