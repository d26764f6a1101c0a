"""Save a run when it is due: a checkpoint, the model for other programs, and the best model."""

from __future__ import annotations

import functools

from minigrad.adapters.files import trained
from minigrad.errors import InputError
from minigrad.training.divergence import check_weights
from minigrad.training.folder import saving
from minigrad.training.folder.checkpoint import Checkpoint
from minigrad.training.folder.saving import Arrays, ModelFiles, Snapshot
from minigrad.training.folder.state import State
from minigrad.training.run import Run


def write_what_is_due(run: Run, *, stops: bool) -> None:
    """Write a checkpoint if one is due, or the model if it is the best so far; report a write that failed."""
    run.writer.check()
    if stops or run.is_due(run.settings.save_every):
        save(run, wait=stops or run.is_finished)
    elif run.is_best and run.world.rank == 0:
        with run.evaluating():
            saving.save_best(run.model, _files(run), run.writer)


def save(run: Run, *, wait: bool = True) -> None:
    """Write a checkpoint and the model (`saving.save_run`); `wait`, or let training go on while they are written.

    Raises RunError if training diverged, if processes have different weights, or if these files, or those of an
    earlier call, cannot be written; the earlier checkpoint is then intact.
    """
    with run.pace.work("save"):
        check_weights(run)
        run.check_equal_weights()
        moments = saving.moments_of(run.model, run.optimizer)  # of all processes, in the first
        if run.world.rank == 0:
            states = {guest.name: state for guest in run.guests if (state := guest.state()) is not None}
            state = State(run.optimizer.steps, run.seconds(), run.totals, run.samples, run.best).as_dict(states)
            kept = moments | _arrays(run)
            snapshot = Snapshot(run.step, trained(run.model), kept, state, functools.partial(_published, run))
            saving.save_run(snapshot, _files(run), run.writer, is_best=run.is_best)
        if wait:
            run.writer.wait()


def restore(run: Run, saved: Checkpoint) -> None:
    """Continue a run from a checkpoint; raises InputError if it does not fit."""
    guests = {guest.name: guest for guest in run.guests if guest.name}
    state = State.read(saved, run.folder.path, guests)
    for name, guest in guests.items():
        try:
            guest.restore(saved.state.get(name))
        except InputError as error:
            raise InputError(f"state.json of step {saved.step} in {run.folder.path} is damaged: {error}") from None
    saving.restore(saved, run.model, run.optimizer, _arrays(run), state.updates)
    run.seconds_before, run.totals, run.samples = state.seconds, state.since_logged, state.samples
    run.step, run.best, run.checked_step = saved.step, state.best, None


def _files(run: Run) -> ModelFiles:
    return ModelFiles(run.folder, run.model, run.text.tokenizer, run.settings.init)


def _arrays(run: Run) -> Arrays:
    """Return the arrays that guests keep in a checkpoint."""
    return {name: array for guest in run.guests for name, array in guest.arrays(run).items()}


def _published(run: Run, weights: Arrays, kept: Arrays) -> Arrays:
    """Return the weights that are written for other programs."""
    return functools.reduce(lambda found, guest: guest.published(found, kept), run.guests, weights)
