"""Pipeline: the layers of a model are divided among processes, and the parts of a batch pass through them in a row.

Each process is a stage: it has some adjacent layers, the first one the embedding too, and the last one the head. A part
of a batch enters at the first stage. The rows that a stage computes are sent to the next one, and the gradient of these
rows comes back. While the second stage computes one part, the first computes the next: with m parts and p equal stages,
a stage idles for (p - 1) / (m + p - 1) of a step (Huang et al. 2019, "GPipe", arXiv 1811.06965).

Stages send rows, not parameters. Each stage computes the gradients of its own parameters only, from all parts of the
batch and in their order. So the sums have the same bits as in one process that takes the parts one after another, but
for those of a tied head, which the first stage and the last one compute.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad import nn, ops
from minigrad.autograd.tensor import Tensor
from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch
from minigrad.distributed.shares import cuts_between
from minigrad.distributed.world import World
from minigrad.errors import InputError
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.loss_pass import LossPass, computing
from minigrad.nn.module import Module
from minigrad.optim.flat import gradient_array
from minigrad.typing import Array

_ADDED = (
    "--pipeline cannot be given with modules that add to the loss, such as experts, because only the last stage "
    "computes one; leave out one of them"
)


def check_layers(model: LanguageModel, family: str, stages: int) -> None:
    """Raise InputError if a model cannot be divided into this many stages."""
    layers = model.config.num_layers
    modules = [module for _, module in model.named_modules()]
    if not all(module.reads_one_layer for module in modules if isinstance(module, nn.CheckpointedLayer)):
        raise InputError(
            f"--pipeline sends the rows of one layer to the next, but the layers of {family} read those of several; "
            "take another --model, or leave out --pipeline"
        )
    if any(module.adds_loss for module in modules):
        raise InputError(_ADDED)
    if stages > layers:
        raise InputError(f"{layers} layers cannot be divided among {stages} processes: start {layers} or fewer")


def layer_cuts(model: LanguageModel, stages: int) -> list[int]:
    """Return the number of the first layer of each stage, and that of all layers; all stages have about equal costs.

    Every layer costs the same, and the head costs as many multiply-adds as it has elements. Only the last stage may be
    without a layer, if the head costs as much as several.

    >>> import models
    >>> [layer_cuts(models.skeleton("vidya-v2", size), 2) for size in ("nano", "mini")]
    [[0, 4, 6], [0, 8, 14]]
    """
    layers, context = model.config.num_layers, model.config.context_length
    head = model.head().size
    costs = [(model.macs_per_token(context) - head) / layers] * layers + [head]
    cuts = cuts_between([slice(index, index + 1) for index in range(layers + 1)], costs, stages)
    bounds = [min(cut, layers + 1 + number - stages) for number, cut in enumerate(cuts[:-1])]
    return [*bounds, layers]


def owners(model: LanguageModel, stages: int) -> dict[int, int]:
    """Return the stage of each parameter, by the id of the parameter.

    What comes before the layers is in the first stage, even if it is also the head; what comes after them is in the
    last stage.
    """
    of_layers = {
        id(parameter): stage
        for stage, (first, last) in enumerate(itertools.pairwise(layer_cuts(model, stages)))
        for layer in list(_layers(model).values())[first:last]
        for parameter in layer.parameters()
    }
    found, beside = {}, 0
    for each in map(id, model.parameters()):
        beside = stages - 1 if each in of_layers else beside
        found[each] = of_layers.get(each, beside)
    return found


def largest_stage(model: LanguageModel, stages: int) -> int:
    """Return the number of parameters whose gradients the largest stage has."""
    of, sizes = owners(model, stages), [0] * stages
    for parameter in model.parameters():
        sizes[of[id(parameter)]] += parameter.size
    if model.lm_head is None:
        sizes[-1] += model.head().size  # a part of its gradient is computed there
    return max(sizes)


def _layers(model: LanguageModel) -> dict[str, Module]:
    """Return the layers of a model by name, each with what wraps it."""
    modules, found = dict[str, Module](), dict[str, Module]()
    for name, module in model.named_modules():
        modules.setdefault(name, module)  # a wrapper comes before what it wraps, and has its name
        if isinstance(module, nn.CheckpointedLayer):
            found[name] = modules[name]
    return found


class _Passing:
    """The rows that pass through the layers of a stage: None before the first of them."""

    rows: Tensor | None = None


class _Layer(nn.Wrapper):
    """A layer in a pipeline: it changes the rows that pass if it `is_own`, one of this stage, and no others."""

    def __init__(self, inner: Module, passing: _Passing, is_own: bool) -> None:
        super().__init__(inner)
        self._passing, self._is_own = passing, is_own

    def forward(self, x: Tensor, *arguments: Any) -> Tensor:
        """Let the rows that arrived, or else those of the first layer, pass."""
        rows = x if self._passing.rows is None else self._passing.rows
        self._passing.rows = self.inner(rows, *arguments) if self._is_own else rows
        return self._passing.rows


class _Flight(NamedTuple):
    """A part of a batch that has passed through this stage: what came in, if it is not the first, and what went out."""

    part: Batch
    x: Tensor | None
    y: Tensor  # rows (rows, width); in the last stage the mean loss


class Pipeline:
    """One stage of a model that is divided among the processes of a job: the workers that share its layers.

    `seed` chooses what dropout drops, `parts` is the number of parts of a step in each process.
    """

    def __init__(self, model: LanguageModel, world: World, seed: int = 0, parts: int = 1) -> None:
        self.model, self.world, self.seed = model, world, seed
        stage = range(*layer_cuts(model, world.size)[world.rank : world.rank + 2])
        self._passing = _Passing()
        self._staged = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
        layers = enumerate(_layers(self._staged).items())
        nn.replace(self._staged, {name: _Layer(each, self._passing, n in stage) for n, (name, each) in layers})
        self._dropouts = nn.dropouts(self._staged)
        self.models: list[LanguageModel] = [model]
        self._num_parts = parts * world.size
        self._last = world.size - 1
        self._is_last = world.rank == self._last
        self._sending: list[Callable[[], object]] = []

    def accumulate(self, work: object, batch: Batch, step: int) -> float:
        """Compute the gradients of this stage for all parts of a step; return the losses, in the last stage.

        Raises InputError for a batch with an objective of its own, and for modules that add to the loss.
        """
        if batch.objective is not None:
            raise InputError(
                "--pipeline computes cross-entropy, but a batch has another objective; leave out --pipeline"
            )
        return self.run(batch.parts(self._num_parts), step=step, num_targets=batch.num_targets)

    def compile_kernels(self, batch: Batch) -> None:
        """Compile every kernel by a pass over a small batch; the weights stay as they are."""
        self.run([batch], step=0, num_targets=1)

    def measurements(self) -> dict[str, list[float]]:
        """Return nothing: each stage could measure its own layers only."""
        return {}

    def run(self, parts: Sequence[Batch], *, step: int, num_targets: int) -> float:
        """Compute the gradients of the parameters of this stage; return the sum of the losses, in the last stage.

        The loss is the sum over all targets of the parts, the gradient that of this sum divided by `num_targets`.
        """
        with np.errstate(all="ignore"):  # the training loop checks that values are finite
            is_tied = self.model.lm_head is None
            if is_tied:
                self._share_head()
            flights = (self._forward(part, step) for part in parts)
            # The last stage returns each part at once. The others first send all of them on, so that none waits.
            nats = sum(self._backward(flight, num_targets) for flight in (flights if self._is_last else list(flights)))
            if is_tied:
                self._add_up_head()
            while self._sending:
                self._sending.pop()()
        return nats

    def _forward(self, part: Batch, step: int) -> _Flight:
        x = None
        nn.set_step(self._dropouts, self.seed, step, first_row=part.first_row)
        if self.world.rank > 0:
            shape = len(part.tokens), self.model.config.width
            x = Tensor(self._receive(shape, self.world.rank - 1), requires_grad=True)
        current = LossPass(part.layout, part.targets != IGNORE)
        with computing(current):
            y, output = self._pass(part, x)
        if current.added:
            raise InputError(_ADDED)
        if self._is_last:
            y = ops.linear_cross_entropy(*self.model.tables()[-1].factors(output), part.targets, part.weights)
        else:
            self._send(y.data, self.world.rank + 1)
        return _Flight(part, x, y)

    def _pass(self, part: Batch, arrived: Tensor | None) -> tuple[Tensor, Tensor]:
        """Run the model with the layers of this stage only; return the output of the last of them, and of the model.

        The first of them gets the rows that `arrived`. The layers of other stages return the rows as they are.
        """
        self._passing.rows = arrived
        output = self._staged.hidden(Tensor(part.tokens), part.layout)
        rows, self._passing.rows = self._passing.rows, None  # its graph is not kept beyond the backward pass
        assert rows is not None
        return rows, output

    def _backward(self, flight: _Flight, num_targets: int) -> float:
        part, x, y = flight
        if self._is_last:
            y.backward(np.array(part.num_targets / max(num_targets, 1)))
        else:
            y.backward(self._receive(y.shape, self.world.rank + 1))
        if x is not None and x.grad is not None:
            self._send(x.grad, self.world.rank - 1)
        return part.num_targets * float(y.item()) if self._is_last else 0.0

    def _share_head(self) -> None:
        """Send the last stage the newest values of a head that is the embedding, which the first stage updates."""
        if self.world.rank == 0:
            self._send(self.model.head().data, self._last)
        elif self._is_last:
            self.world.receive(self.model.head().data, 0)
            self.model.head().version.count += 1

    def _add_up_head(self) -> None:
        """Add the gradient that the last stage computed for a head that is the embedding to that of the first one."""
        gradient = gradient_array(self.model.head())
        if self.world.rank == 0:
            gradient += self._receive(gradient.shape, self._last)
        elif self._is_last:
            self._send(gradient, 0)

    def _send(self, array: Array, to: int) -> None:
        self._sending.append(self.world.send(np.ascontiguousarray(array), to))

    def _receive(self, shape: tuple[int, ...], source: int) -> Array:
        array = np.empty(shape, self.model.head().dtype)
        self.world.receive(array, source)
        return array
