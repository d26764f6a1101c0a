"""A run that diverged: weights that are not finite are found before they are saved, with the operation at fault."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from minigrad.autograd.anomaly import AnomalyError, detect_anomaly
from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.evaluate.sequences import evaluation_batches
from minigrad.training.parallel import Replicas
from minigrad.training.run import Run


def check_weights(run: Run) -> None:
    """Raise RunError if the weights, or the loss that they give, are not finite; such weights must not be saved.

    The check is cached until the next step: an evaluation, a sample and a checkpoint share it.
    """
    if run.checked_step == run.step:
        return
    run.optimizer.complete()
    for name, parameter in run.model.named_parameters():
        if not np.isfinite(parameter.data).all():
            raise run.divergence(f"{name} holds numbers that are not finite")
    one = next(evaluation_batches(run.validation, context=run.settings.context))

    def loss() -> Tensor:
        return run.model.loss(one.tokens, one.targets, layout=one.layout, weights=one.weights)

    with no_grad(), np.errstate(all="ignore"):
        if not math.isfinite(loss().item()):
            raise run.divergence(first_anomaly(run, loss))
    run.checked_step = run.step


def first_anomaly(run: Run, repeat: Callable[[], object]) -> str:
    """Repeat the work of a step with every operation checked; name the first that made a NaN or an infinity.

    Each process repeats its share of the sequences, with all layers: the stages of a pipeline would wait for the one
    that found something. All return the first finding.
    """
    run.optimizer.complete()
    run.workers = Replicas(run.model, 1, run.settings.seed, run.world, run.settings.accumulate)
    run.optimizer.zero_grad()
    found = ""
    try:
        with detect_anomaly():
            repeat()
    except AnomalyError as error:
        found = str(error)
    return next(filter(None, run.world.collect(found)), "the gradient became too large")
