"""Data parallelism: the sequences of a batch are divided among threads, each with a replica of the model.

Threads that share every matrix product synchronise hundreds of times per step; each time all wait for the slowest, and
caches are cold. Here each thread takes some sequences through the whole model alone, forward and backward, and the
threads synchronise once, to add up the gradients (an all-reduce). The weights of all replicas are the same memory; each
has gradients of its own.

The products of one thread must still be large beside the weights that it reads and the gradient that it writes;
`num_replicas` decides. Sequences may have any lengths: each thread gets about equally many rows. What dropout drops is
a function of the place of a row in the batch of the step, and every target of that batch has the same weight. So the
update does not depend on the number of parts and of replicas, except for the order in which sums are added.

The replicas of a small model are copies of this process where that is possible: see `minigrad.training.copies`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minigrad import nn
from minigrad.data.tokens.batches import Batch
from minigrad.distributed.world import ALONE, World
from minigrad.kernels import threads
from minigrad.nn.language_model import LanguageModel
from minigrad.optim.flat import Segment, segments
from minigrad.system import blas, forks, hardware
from minigrad.training.settings import RunSettings
from minigrad.typing import Array

ForwardBackward = Callable[[LanguageModel, Batch, Array], float]
"""Adds the gradient of the mean loss of some sequences, times a weight, to a model's gradients; returns the loss."""

Allocate = Callable[[Segment], tuple[Array, Array]]
"""Returns a flat array for the weights of a segment, and one for their gradients."""

_SMALL_MODEL = 8_000_000  # parameters; measured on two threads: 1 million gain 16 to 29%, 5 million 5 to 9%, 15 none
_ROWS_PER_WIDTH = 2  # measured: 10 rows per channel gain 20 to 30%, 4 gain 15%, 1 gains nothing, a sixth loses


def num_replicas(model: LanguageModel, batch_size: int, context: int) -> int:
    """Return the number of replicas: one per thread, or per sequence if these are fewer.

    It is 1 for small batches, and where BLAS cannot be restricted to the thread that calls it.
    """
    count = min(hardware.threads(), batch_size)
    enough = batch_size * context >= count * _ROWS_PER_WIDTH * model.config.width
    return count if enough and blas.can_use_one_thread() else 1


def divides_layers(settings: RunSettings, world: World) -> bool:
    """Whether each process has some of the layers, and not some of the sequences."""
    return world.size > 1 and settings.pipeline


def replicas_of(settings: RunSettings, model: LanguageModel, world: World) -> int:
    """Return the number of replicas in each process of a run."""
    batch = -(-settings.batch // world.size)
    return 1 if divides_layers(settings, world) else num_replicas(model, batch, settings.context)


def copies_pay(model: LanguageModel, world: World = ALONE) -> bool:
    """Whether copies of the process are possible, and worth the memory that they take."""
    return forks.ARE_POSSIBLE and world.size == 1 and model.num_parameters() <= _SMALL_MODEL


def has_copies(settings: RunSettings, model: LanguageModel, world: World) -> bool:
    """Whether the replicas of a run are in copies of the process.

    They stay in threads for a profile, which is that of one process, and for every objective: most have a teacher,
    whose outputs are too large to send.
    """
    return not settings.profile and settings.objective is None and copies_pay(model, world)


def same_weights(segment: Segment) -> tuple[Array, Array]:
    """Return the weights of a segment, in the same memory, and memory for other gradients."""
    return segment.data, np.empty_like(segment.gradient)


def replica(model: LanguageModel, allocate: Allocate = same_weights) -> LanguageModel:
    """Return a model with the same weights, in the same memory, and flat gradients of its own, which count as zero.

    `allocate` may give each segment other memory, for a replica in another process.
    """
    parameters = model.parameters()
    twins = {id(parameter): copy.copy(parameter) for parameter in parameters}
    for segment in segments(parameters):
        weights, gradients = allocate(segment)
        of_members = zip(segment.members, segment.views(weights), segment.views(gradients), strict=True)
        for parameter, values, gradient in of_members:
            twins[id(parameter)].bind(values, gradient)
    return copy.deepcopy(model, twins)


@dataclass(frozen=True)
class Assignment:
    """What a replica does in a part of a step: `work` on its share; the gradient counts with `weight`."""

    work: ForwardBackward
    share: Batch
    step: int
    weight: float


class _Measured(NamedTuple):
    """What a replica measured in its share of a part, and the number of rows of that share."""

    rows: int
    figures: dict[str, list[float]]


class Replicas:
    """A model and its replicas, one for each thread, that share the sequences of each of the `parts` of a step."""

    def __init__(self, model: LanguageModel, count: int, seed: int = 0, world: World = ALONE, parts: int = 1) -> None:
        self.models = [model, *(self.new_replica(model) for _ in range(count - 1))]
        self.seed, self.world, self.parts = seed, world, parts
        # Found once: to walk through the modules of a small model takes longer than to add up its gradients.
        self._parameters = [model.parameters() for model in self.models]
        self._segments = [segments(parameters) for parameters in self._parameters]
        self._dropouts = [nn.dropouts(model) for model in self.models]
        self._sizes: list[int] = []  # the rows that each replica had in the last part
        self._earlier: list[_Measured] = []  # in the parts of the last step before that one

    def new_replica(self, model: LanguageModel) -> LanguageModel:
        """Return one more replica of the model."""
        return replica(model)

    def accumulate(self, work: ForwardBackward, batch: Batch, step: int) -> float:
        """Add up the gradients of a step in this process; return the sum of its losses over all targets."""
        rank, size, parts = self.world.rank, self.world.size, batch.parts(self.parts)
        own = parts if size == 1 else [share for part in parts for share in part.parts(size)[rank : rank + 1]]
        self._earlier, nats = [], 0.0
        for number, part in enumerate(own):
            if number and self._measures:  # the next part replaces what the modules measured in the one before
                self._earlier += self._newest()
            nats += self.run(work, part, step=step, num_targets=batch.num_targets)
        return nats

    @functools.cached_property
    def _measures(self) -> bool:
        """Whether the model has any figures; asked after its first pass, before which a module may have none."""
        return bool(self.models[0].measurements())

    def compile_kernels(self, batch: Batch) -> None:
        """Compile every kernel by a pass over a small batch; the weights stay as they are."""
        self.models[0].loss(batch.tokens, batch.targets, layout=batch.layout, weights=batch.weights).backward()

    def run(self, work: ForwardBackward, batch: Batch, *, step: int = 0, num_targets: int | None = None) -> float:
        """Do `work` on every replica with its share of the sequences, add up the gradients, and return the loss.

        The loss is the sum over all targets; the gradient is that of this sum divided by `num_targets`, by default all.
        """
        shares = batch.parts(len(self.models)) or [batch]
        self._sizes = [len(share.tokens) for share in shares]
        real = [share.num_targets for share in shares]
        total = sum(real) if num_targets is None else num_targets
        tasks = [Assignment(work, share, step, own / max(total, 1)) for share, own in zip(shares, real, strict=True)]
        losses = self.compute(tasks)
        if len(tasks) > 1:
            self._add_gradients(len(tasks))
        return float(np.multiply(losses, real).sum())

    def compute(self, tasks: Sequence[Assignment]) -> list[float]:
        """Let each replica do its task, in a thread of its own; return the mean losses."""
        losses = [0.0] * len(tasks)

        def work_on(number: int) -> None:
            losses[number] = self.work_on(number, tasks[number])

        threads.run_tasks(work_on, len(tasks))  # which calls a single one at once
        return losses

    def work_on(self, number: int, task: Assignment) -> float:
        """Let a replica do its task in this thread; return the mean loss of its share."""
        nn.set_step(self._dropouts[number], self.seed, task.step, first_row=task.share.first_row)
        with np.errstate(all="ignore"):  # a setting of each thread; the training loop checks that values are finite
            return task.work(self.models[number], task.share, np.array(task.weight))

    def _add_gradients(self, count: int) -> None:
        """Add the gradients of the replicas to those of the model, in order, and let the replicas' count as zero."""
        for twins in zip(*self._parameters[:count], strict=True):
            if any(twin.has_gradient for twin in twins):
                for twin in twins:
                    _ = twin.grad  # reading writes the zeros of a discarded gradient
        for ours, *others in zip(*self._segments[:count], strict=True):
            for span in ours.spans():
                for theirs in others:
                    add = functools.partial(_add_range, ours.gradient[span], theirs.gradient[span])
                    threads.over_rows(add, span.stop - span.start, 1)
        for parameters in self._parameters[1:count]:
            for parameter in parameters:
                parameter.discard_grad()

    def measurements(self) -> dict[str, list[float]]:
        """Return what the model measured in the last step in this process, averaged over the tokens."""
        found = [*self._earlier, *self._newest()]
        if not found:  # this process has had no sequence yet
            return {}
        sizes = [each.rows for each in found]
        every = {name: [each.figures[name] for each in found] for name in found[0].figures}
        return {name: np.average(each, axis=0, weights=sizes).tolist() for name, each in every.items()}

    def _newest(self) -> list[_Measured]:
        """Return what each replica measured in the last part."""
        return list(map(_Measured, self._sizes, self.each_measured(len(self._sizes))))

    def each_measured(self, count: int) -> list[dict[str, list[float]]]:
        """Return what each of the first `count` replicas measured."""
        return [model.measurements() for model in self.models[:count]]


def _add_range(total: Array, gradient: Array, start: int, stop: int) -> None:
    total[start:stop] += gradient[start:stop]
