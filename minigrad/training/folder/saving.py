"""Save and restore a run: its checkpoint, and the model that is written for other programs."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from minigrad.adapters.files import save, trained
from minigrad.distributed.agreement import check_equal
from minigrad.errors import InputError
from minigrad.formats.weights import check_weights
from minigrad.nn.parameter import Parameter
from minigrad.training.best import folder_of, is_best
from minigrad.training.folder import checkpoint
from minigrad.training.folder.checkpoint import Checkpoint
from minigrad.training.folder.state import State
from minigrad.typing import Array

if TYPE_CHECKING:
    from minigrad.training.run import Run


def save_run(run: Run) -> None:
    """Begin to write the model for other programs, and then a checkpoint, from copies of their arrays.

    In this order a run that is killed between the two takes its last steps again and writes both; after a checkpoint of
    the last step nothing is left to do, and an older model would stay. The model is that of the averaged weights, if
    the run has these; it is written as the best one too, if it is. Of several processes the first one writes, after it
    got the moments of the others, and all compare their weights.
    """
    check_equal_weights(run)
    weights, kept = trained(run.model), _kept(run)  # the moments of all processes meet in the first
    if run.world.rank > 0:
        return
    run.folder.check()
    step, also_best = run.step, is_best(run.best, run.step)
    state = State(run.optimizer.steps, run.seconds(), run.totals, run.samples, run.adaptive, run.best).as_dict()

    def write(copies: dict[str, Array]) -> None:
        ours, moments = ({name: copies[name] for name in names} for names in (weights, kept))
        final = {name: moments.get(f"{name}.average", array) for name, array in ours.items()}
        for folder in (run.folder.path, *([folder_of(run.folder.path)] if also_best else [])):
            _write_model(run, folder, final)
        checkpoint.save(run.folder.path, step, weights=ours, moments=moments, state=state)
        run.world.last_word(run.folder.last_word())

    run.writer.begin(weights | kept, write)


def save_best(run: Run) -> None:
    """Begin to write the model of a run as the best one, from a copy."""
    if run.world.rank == 0:
        run.folder.check()
        with run.averaged():
            run.writer.begin(trained(run.model), functools.partial(_write_model, run, folder_of(run.folder.path)))


def _write_model(run: Run, folder: Path, weights: Mapping[str, Array]) -> None:
    """Write weights in the published format into a folder, with the tokenizer."""
    save(run.model, folder, base=run.settings.init, weights=weights)
    run.folder.keep_tokenizer(run.text.tokenizer, folder)


def check_equal_weights(run: Run) -> None:
    """Raise RunError if a process has other weights than the first.

    The exchange of weights after a step would hide the mismatch: processes that read different files would go on with a
    mixture of two models.
    """
    if run.world.size > 1:
        digest = hashlib.blake2b(digest_size=16)
        for parameter in run.model.parameters():
            digest.update(parameter.data.data)
        check_equal(run.world, f"weights after step {run.step:,}", digest.hexdigest(), run.describe_last_checkpoint())


def restore_run(run: Run, saved: Checkpoint) -> None:
    """Continue from a checkpoint; raises InputError if it does not fit the model."""
    model, dtype = run.model, run.model.head().dtype
    check_weights(saved.weights, {name: each.shape for name, each in trained(model).items()}, dtype)
    shapes = {f"{name}.{kind}": parameter.shape for name, parameter, kinds in _named(run) for kind in kinds}
    moments = {name: array for name, array in saved.moments.items() if name in shapes or not _says_nothing(name, array)}
    check_weights(moments, shapes, dtype)
    state = State.read(saved, run.folder.path)
    if (state.context and state.context.largest) != (run.adaptive and run.adaptive.largest):
        raise InputError(f"the context in state.json of step {saved.step} in {run.folder.path} is not this run's")
    model.load_state_dict(model.state_dict() | saved.weights)
    load_moments(run, moments, state.updates)
    run.seconds_before, run.totals, run.samples = state.seconds, state.since_logged, state.samples
    run.step, run.adaptive, run.best = saved.step, state.context, state.best


def load_moments(run: Run, moments: Mapping[str, Array], updates: int) -> None:
    """Set what the optimizer keeps, named as `save_run` names it, and its number of updates; missing arrays are 0."""
    run.optimizer.load_moments(
        [
            [moments.get(f"{name}.{kind}", np.zeros(parameter.shape)) for kind in kinds if kind != _AVERAGE]
            for name, parameter, kinds in _named(run)
        ]
    )
    for (name, parameter, _), average in zip(_named(run), _averages(run), strict=False):
        average[...] = moments.get(f"{name}.{_AVERAGE}", parameter.data)
    run.optimizer.steps = updates


_AVERAGE = "average"


def _named(run: Run) -> list[tuple[str, Parameter, tuple[str, ...]]]:
    """Return each parameter that is trained with its name, and the names of the arrays kept beside its value."""
    named = [(name, each) for name, each in run.model.named_parameters() if each.requires_grad]
    average = (_AVERAGE,) if run.average else ()
    return [(name, each, (*run.optimizer.moments_kept(each), *average)) for name, each in named]


def _kept(run: Run) -> dict[str, Array]:
    """Return the arrays kept beside the weights, by names such as "norm.weight.m"; nothing but in the first process."""
    moments = run.optimizer.moments()
    averages: list[tuple[Array, ...]] = [(each,) for each in _averages(run)] or [()] * len(moments)
    return {
        f"{name}.{kind}": array
        for (name, _, kinds), arrays, average in zip(_named(run), moments, averages, strict=False)
        for kind, array in zip(kinds, (*arrays, *average), strict=True)
    }


def _averages(run: Run) -> list[Array]:
    return run.average.values() if run.average else []


def _says_nothing(name: str, moment: Array) -> bool:
    """Whether a moment is what Muon once kept of its matrices: a second one that is zero."""
    return name.endswith(".v") and not moment.any()
