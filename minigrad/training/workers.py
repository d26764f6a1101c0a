"""The workers of a run: what computes the gradients of a step in this process."""

from __future__ import annotations

from minigrad.distributed.pipeline import Pipeline
from minigrad.distributed.world import ALONE, World
from minigrad.nn.language_model import LanguageModel
from minigrad.training import copies
from minigrad.training.copies import Copies
from minigrad.training.parallel import Replicas, divides_layers, num_replicas, replicas_of
from minigrad.training.settings import RunSettings


def workers_of(settings: RunSettings, model: LanguageModel, world: World = ALONE) -> Replicas | Pipeline:
    """Return the workers of a run in this process.

    Replicas stay in threads for a profile, which is that of one process, and for a teacher, whose words are too many to
    send.
    """
    if divides_layers(settings, world):
        return Pipeline(model, world, settings.seed, settings.accumulate)
    in_threads = settings.profile or settings.objective is not None or not copies.pay(model, world)
    replicas = Replicas if in_threads else Copies
    return replicas(model, replicas_of(settings, model, world), settings.seed, world, settings.accumulate)


def fastest(model: LanguageModel, batch_size: int, context: int) -> Replicas:
    """Return a model with the replicas that a run in one process has for batches of this shape."""
    replicas = Copies if copies.pay(model, ALONE) else Replicas
    return replicas(model, num_replicas(model, batch_size, context))
