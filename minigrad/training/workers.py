"""The workers of a run: what computes the gradients of a step in this process."""

from __future__ import annotations

from minigrad.distributed.pipeline import Pipeline
from minigrad.distributed.world import ALONE, World
from minigrad.nn.language_model import LanguageModel
from minigrad.training.copies import Copies
from minigrad.training.parallel import Replicas, copies_pay, divides_layers, has_copies, num_replicas, replicas_of
from minigrad.training.settings import RunSettings


def workers_of(settings: RunSettings, model: LanguageModel, world: World = ALONE) -> Replicas | Pipeline:
    """Return the workers of a run in this process."""
    if divides_layers(settings, world):
        return Pipeline(model, world, settings.seed, settings.accumulate)
    replicas = Copies if has_copies(settings, model, world) else Replicas
    return replicas(model, replicas_of(settings, model, world), settings.seed, world, settings.accumulate)


def fastest(model: LanguageModel, batch_size: int, context: int) -> Replicas:
    """Return a model with the replicas that a run in one process has for batches of this shape."""
    replicas = Copies if copies_pay(model) else Replicas
    return replicas(model, num_replicas(model, batch_size, context))
