"""What a run writes so that it can continue as if it had never stopped, and how it continues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from minigrad.errors import InputError
from minigrad.formats.weights import check_weights
from minigrad.training import checkpoint, optimizers
from minigrad.training.checkpoint import Checkpoint
from minigrad.training.state import State
from minigrad.typing import Array

if TYPE_CHECKING:
    from minigrad.training.run import Run


def save(run: Run) -> None:
    """Begin to write, from copies, a checkpoint of a run, and then its model for other programs.

    The model is that of the averaged weights, if the run has these. It is written as the best one too, if it is.
    """
    step, is_best, weights, kept = run.step, run.is_best, run.model.state_dict(), kept_by(run)
    state = State(run.optimizer.steps, run.seconds(), run.totals, run.samples, run.adaptive, run.best).as_dict()

    def write(copies: dict[str, Array]) -> None:
        ours, moments = ({name: copies[name] for name in names} for names in (weights, kept))
        checkpoint.save(run.folder.path, step, weights=ours, moments=moments, state=state)
        final = {name: moments.get(f"{name}.average", array) for name, array in ours.items()}
        run.folder.write_model(run.model, final, run.text.tokenizer, is_best=False)
        if is_best:
            run.folder.write_model(run.model, final, run.text.tokenizer, is_best=True)

    run.saving.begin(weights | kept, write)


def restore(run: Run, saved: Checkpoint) -> None:
    """Let a run continue from a checkpoint; raises InputError if it does not fit the model."""
    model, dtype = run.model, run.model.head().dtype
    check_weights(saved.weights, {name: each.shape for name, each in model.named_parameters()}, dtype)
    kept = kept_by(run)
    moments = optimizers.without_unused(saved.moments, kept)
    check_weights(moments, {name: array.shape for name, array in kept.items()}, dtype)
    state = State.read(saved, run.folder.path)
    if (state.context and state.context.largest) != (run.adaptive and run.adaptive.largest):
        raise InputError(f"the context in state.json of step {saved.step} in {run.folder.path} is not this run's")
    model.load_state_dict(saved.weights)
    load_moments(run, moments, state.updates)
    run.seconds_before, run.totals, run.samples = state.seconds, state.since_logged, state.samples
    run.step, run.adaptive, run.best = saved.step, state.context, state.best


def load_moments(run: Run, moments: Mapping[str, Array], updates: int) -> None:
    """Set what the optimizer of a run keeps, as far as it is among `moments`, and its number of updates."""
    for name, array in kept_by(run).items():
        if name in moments:
            array[...] = moments[name]
    run.optimizer.steps = updates


def kept_by(run: Run) -> dict[str, Array]:
    """Return what changes in every step beside the weights, by names that begin with those of the parameters."""
    trained = [name for name, parameter in run.model.named_parameters() if parameter.requires_grad]
    averages = run.average.values() if run.average else []
    named = {f"{name}.average": array for name, array in zip(trained, averages, strict=False)}
    return optimizers.moments_of(run.model, run.optimizer) | named
