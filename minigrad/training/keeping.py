"""Save a run when it is due, while training goes on, and restore it: a checkpoint, and the model for other programs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable
from pathlib import Path

from minigrad.adapters import files
from minigrad.errors import InputError, RunError
from minigrad.formats.huggingface import read_end_ids
from minigrad.formats.weights import check_arrays, check_values
from minigrad.system.files import reason
from minigrad.training.folder import checkpoint
from minigrad.training.folder.checkpoint import Checkpoint, State
from minigrad.training.optimizers import load_moments, moments_of, named_moments
from minigrad.training.run import Run
from minigrad.training.validation import check_finite
from minigrad.typing import Array, Arrays


def write_what_is_due(run: Run, *, stops: bool) -> None:
    """Write a checkpoint if one is due, or the model if it is the best so far; report a write that failed."""
    run.writer.check()
    if stops or run.is_due(run.settings.save_every):
        save(run, wait=stops or run.is_finished)
    elif run.is_best and run.world.rank == 0:
        run.folder.check()
        weights, arrays = files.trained(run.model), run.arrays_of_guests()

        def write(copies: Arrays) -> None:
            _write_model(run, _published(run, copies, weights, arrays), run.folder.best)

        run.writer.begin(weights | arrays, write)


def save(run: Run, *, wait: bool = True) -> None:
    """Write a checkpoint and the model; `wait`, or let training go on while they are written.

    Raises RunError if training diverged, if processes have different weights, or if these files, or those of an
    earlier call, cannot be written; the earlier checkpoint is then intact.
    """
    with run.pace.work("save"):
        check_finite(run)
        run.check_equal_weights()
        moments = moments_of(run.model, run.optimizer)  # of all processes, in the first
        if run.world.rank == 0:
            _begin_to_write(run, moments)
        if wait:
            run.writer.wait()


def _begin_to_write(run: Run, moments: dict[str, Array]) -> None:
    """Begin to write the model for other programs, and then a checkpoint, from copies.

    In this order a run that is killed between the two takes its last steps again and writes both; after a checkpoint of
    the last step nothing is left to do, and an older model would stay. The best model is also written as such.
    """
    # A guest may return what the next step changes, while the files are written.
    states = {guest.name: copy.deepcopy(state) for guest in run.guests if (state := guest.state()) is not None}
    state = State(run.optimizer.steps, run.seconds(), run.totals, run.samples, run.best).as_dict(states)
    weights, arrays = files.trained(run.model), run.arrays_of_guests()
    kept = moments | arrays
    folder, step, is_best = run.folder, run.step, run.is_best
    folder.check()

    def write(copies: Arrays) -> None:
        published = _published(run, copies, weights, arrays)
        for place in (folder.path, *([folder.best] if is_best else [])):
            _write_model(run, published, place)
        checkpoint.save(folder.path, step, weights=_named(copies, weights), moments=_named(copies, kept), state=state)
        folder.world.last_word(folder.last_word())

    run.writer.begin(weights | kept, write)


def _published(run: Run, copies: Arrays, weights: Iterable[str], arrays: Iterable[str]) -> Arrays:
    """Return the weights for other programs, from copies of the trained weights and of the arrays of the guests."""
    trained, beside = _named(copies, weights), _named(copies, arrays)
    return functools.reduce(lambda found, guest: guest.published(found, beside), run.guests, trained)


def _named(copies: Arrays, names: Iterable[str]) -> Arrays:
    """Return the copies with these names."""
    return {name: copies[name] for name in names}


def _write_model(run: Run, weights: Arrays, place: Path) -> None:
    """Write the model with these weights, and its tokenizer; raises RunError if they cannot be written."""
    files.save(run.model, place, base=run.settings.init, weights=weights)
    path = place / "tokenizer.json"  # weights are of no use without
    try:
        if not path.exists():
            run.text.tokenizer.save(place)
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from error


def restore(run: Run, saved: Checkpoint) -> None:
    """Continue a run from a checkpoint; raises InputError if it does not fit."""
    guests = {guest.name: guest for guest in run.guests if guest.name}
    state = State.read(saved, run.folder.path, guests)
    for name, guest in guests.items():
        try:
            guest.restore(saved.state.get(name))
        except InputError as error:
            raise InputError(f"state.json of step {saved.step} in {run.folder.path} is damaged: {error}") from None
    model, arrays, dtype = run.model, run.arrays_of_guests(), run.model.head().dtype
    trained = {name: each.shape for name, each in files.trained(model).items()}
    named = named_moments(model, run.optimizer)
    shapes = {f"{name}.{kind}": each.shape for name, each, kinds in named for kind in kinds}
    shapes |= {name: array.shape for name, array in arrays.items()}
    with checkpoint.naming_older(run.folder.path, saved.step):
        check_arrays(saved.weights, trained, dtype, place=f"step {saved.step} in {run.folder.path}")
        types = {name: array.dtype.name for name, array in arrays.items()}
        place = f"the optimizer of step {saved.step} in {run.folder.path}"
        check_arrays(saved.moments, shapes, dtype, types=types, place=place)
        own = {name: array for name, array in saved.moments.items() if name not in arrays}
        check_values(saved.weights | own, f"step {saved.step} in {run.folder.path}")
    model.load_state_dict(model.state_dict() | saved.weights)
    model.end_ids = read_end_ids(run.folder.path) or model.end_ids  # written with the model
    load_moments(model, run.optimizer, saved.moments, state.updates)
    for name, array in arrays.items():
        array[...] = saved.moments[name]
    run.seconds_before, run.totals, run.samples = state.seconds, state.since_logged, state.samples
    run.step, run.best, run.checked_step = saved.step, state.best, None
