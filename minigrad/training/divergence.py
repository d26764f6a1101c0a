"""Which operation made the first number that is not finite: the work of a step once more, with each of them checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minigrad.autograd.anomaly import AnomalyError, detect_anomaly

if TYPE_CHECKING:
    from minigrad.training.run import Run


def first_anomaly(run: Run, repeat: Callable[[], object]) -> str:
    """Repeat the work of a step with every operation checked; name the first that made a NaN or an infinity.

    Each process repeats its own work; all return what the first of them found that found something. The stages of a
    pipeline would wait for the one that found something, so each repeats a share of the sequences with all layers.
    """
    if run.pipeline:
        run.optimizer.complete()
        run.pipeline = None
    run.optimizer.zero_grad()
    found = ""
    try:
        with detect_anomaly():
            repeat()
    except AnomalyError as error:
        found = str(error)
    return next(filter(None, run.world.collect(found)), "the gradient became too large")
