"""What of a run a checkpoint holds, written and read back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from minigrad.distributed.agreement import check_equal
from minigrad.errors import InputError
from minigrad.formats.weights import check_weights
from minigrad.nn.low_rank_files import save, trained
from minigrad.nn.parameter import Parameter
from minigrad.training import checkpoint
from minigrad.training.checkpoint import Checkpoint
from minigrad.training.state import State
from minigrad.typing import Array

if TYPE_CHECKING:
    from minigrad.training.run import Run


def save_run(run: Run) -> None:
    """Write a checkpoint, then the weights for other programs into the run folder.

    Of several processes the first one writes, after it got the moments of the others, and all compare their weights.
    """
    check_equal_weights(run)
    moments = {
        f"{name}.{kind}": array
        for name, pair in zip(_trained(run), run.optimizer.moments(), strict=False)  # the first process has them all
        for kind, array in zip("mv", pair, strict=True)
    }
    if run.world.rank > 0:
        return
    state = State(run.optimizer.steps, run.seconds(), run.totals, run.samples, run.adaptive).as_dict()
    checkpoint.save(run.folder.path, run.step, weights=trained(run.model), moments=moments, state=state)
    save(run.model, run.folder.path, base=run.settings.init)
    run.folder.keep_tokenizer(run.text.tokenizer)
    run.world.last_word(run.folder.last_word())


def check_equal_weights(run: Run) -> None:
    """Raise RunError if a process has other weights than the first.

    Each step mends such a difference and hides it, because every weight then comes from one process: where the weights
    were read from different files, a run would go on with a mixture of two models.
    """
    if run.world.size > 1:
        digest = hashlib.blake2b(digest_size=16)
        for parameter in run.model.parameters():
            digest.update(parameter.data.data)
        check_equal(run.world, f"weights after step {run.step:,}", digest.hexdigest(), run.what_is_intact())


def restore_run(run: Run, saved: Checkpoint) -> None:
    """Continue from a checkpoint; raises InputError if it does not fit the model."""
    model, dtype = run.model, run.model.head().dtype
    check_weights(saved.weights, {name: each.shape for name, each in trained(model).items()}, dtype)
    shapes = {f"{name}.{kind}": parameter.shape for name, parameter in _trained(run).items() for kind in "mv"}
    check_weights(saved.moments, shapes, dtype)
    state = State.read(saved, run.folder.path)
    if (state.context and state.context.largest) != (run.adaptive and run.adaptive.largest):
        raise InputError(f"the context in state.json of step {saved.step} in {run.folder.path} is not this run's")
    model.load_state_dict(model.state_dict() | saved.weights)
    load_moments(run, saved.moments, state.updates)
    run.seconds_before, run.totals, run.samples = state.seconds, state.since_logged, state.samples
    run.step, run.adaptive = saved.step, state.context


def load_moments(run: Run, moments: Mapping[str, Array], updates: int) -> None:
    """Set the moments of the optimizer, named as `save_run` names them, and its number of updates."""
    run.optimizer.load_moments([[moments[f"{name}.{kind}"] for kind in "mv"] for name in _trained(run)])
    run.optimizer.steps = updates


def _trained(run: Run) -> dict[str, Parameter]:
    """Return the parameters that are trained by name, without frozen ones."""
    return {name: parameter for name, parameter in run.model.named_parameters() if parameter.requires_grad}
