"""What all optimizers share: groups of parameters, their moments in flat arrays, clipping, and a state to save.

A step is one call of a kernel for each range of memory whose parameters are trained alike. A model's parameters are
views of one flat array, so that for a whole model these are two calls: one for its matrices, one for its vectors.

Of several processes that train together, each updates its share of every such range (`minigrad.distributed.shares`):
it receives the sum of the gradients of its share, and has the moments of its share only.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd import observers
from minigrad.autograd.tensor import Tensor
from minigrad.distributed.shares import even_cuts, overlap
from minigrad.distributed.world import ALONE, World, total
from minigrad.errors import DivergenceError, InputError, RunError, ShapeError
from minigrad.kernels.rowwise.adamw import sum_of_squares
from minigrad.optim.clip import LARGEST_NORM, clip_factor
from minigrad.optim.flat import Segment, check_apart, distinct_parameters, gradient_array, segments
from minigrad.optim.groups import Group, groups_of
from minigrad.optim.parts import Part
from minigrad.optim.settings import checked
from minigrad.typing import Array


class Optimizer:
    """The base of all optimizers; each has its `moment_names` and implements `update`.

    `parameters` are tensors, or dictionaries with tensors as "params", and with an "lr", a "weight_decay" or
    "decay_vectors" of their own. Parameters with fewer than two axes (norm weights, biases) are decayed only with
    `decay_vectors`: zero is not a sensible value for them.
    A step changes only parameters that have a gradient (`Tensor.has_gradient`): one that the loss does not depend on is
    neither decayed nor moved, and a frozen one is skipped until it is trained again.
    Raises InputError if no parameter requires a gradient, for a parameter in two groups, for two that share memory,
    for unknown names, and for settings that cannot be used (`minigrad.optim.settings`).
    """

    moment_names: tuple[str, ...] = ()  # those of a parameter may be only the first of these

    def __init__(
        self, parameters: Iterable[Tensor] | Iterable[Group], *, lr: float, weight_decay: float, decay_vectors: bool
    ) -> None:
        self.lr, self.weight_decay = checked(self, "lr", lr), checked(self, "weight_decay", weight_decay)
        self.decay_vectors = decay_vectors
        self.steps = 0
        self.groups = groups_of(parameters)
        for group in self.groups:
            for name, value in group.items():
                if name in ("lr", "weight_decay"):
                    checked(self, name, value)
        if lr <= 0 and any("lr" in group for group in self.groups):
            raise InputError(f"groups with an lr of their own need an optimizer with an lr above 0, not {lr}")
        self.parameters = distinct_parameters(parameter for group in self.groups for parameter in group["params"])
        self.world: World = ALONE
        self._owners: Mapping[int, int] | None = None
        self._parts: list[Part] = []
        self._placed: list[Array | None] | None = None  # the memory of each parameter that the parts are made for
        self._place()

    def divide_among(self, world: World, owners: Mapping[int, int] | None = None) -> None:
        """Let each process of a job update its share of the parameters, from the first step on.

        The gradient of a step is then the sum of those of all processes, and each step ends with the same weights in
        all of them. With `owners`, the process by the id of each parameter, as in a pipeline, an owner alone computes
        the gradients of what it owns, nothing is added up, and the others get its weights when `complete` is called.
        Raises RunError if steps were taken.
        """
        if world.size > 1 and self.steps:
            raise RunError(f"an optimizer is divided among processes before its first step, not after {self.steps}")
        self.world, self._owners, self._placed, self._parts = world, owners, None, []
        self._place()

    def step(self, lr: float | None = None, max_norm: float = math.inf) -> float:
        """Clip the gradient to `max_norm` and update every parameter that has one; return the norm before clipping.

        `lr` is the learning rate of this step, by a schedule for example; the learning rates of groups follow it in
        proportion. A norm that is not finite is returned and nothing is changed. Every gradient is clipped at least to
        a norm of 2^60 (`LARGEST_NORM`): float32 cannot hold the squares of much larger numbers.
        Raises InputError for a setting that cannot be used; DivergenceError if the update made weights that are not
        finite.
        """
        rate = checked(self, "lr", self.lr if lr is None else lr)
        self._place()
        self._collect_gradients()
        with observers.update(type(self).__name__):
            self._add_up_gradients()
            runs = [(part, run) for part in self._parts for run in part.own_runs()]
            squares = math.fsum(sum_of_squares(part.segment.gradient[run]) for part, run in runs)
            norm = math.sqrt(total(self.world, squares))
            if math.isfinite(norm):
                gradient_scale = clip_factor(norm, min(max_norm, LARGEST_NORM))
                self.steps += 1
                for part, run in runs:
                    self.update(part, run, rate if part.lr is None else part.lr * (rate / self.lr), gradient_scale)
                self._check_weights(runs, rate)
                if self._owners is None:
                    self.complete()
                for parameter in self.parameters:
                    parameter.version.count += parameter.has_gradient
        return norm

    def _check_weights(self, runs: list[tuple[Part, slice]], rate: float) -> None:
        """Raise DivergenceError, in all processes, if the update of one made weights that are not finite."""
        squares = sum(sum_of_squares(part.segment.data[run]) for part, run in runs)
        if not math.isfinite(total(self.world, squares)):
            raise DivergenceError(
                f"{type(self).__name__} made weights that are not finite; the learning rate {rate:g} is too large"
            )

    def complete(self) -> None:
        """Let every process have all weights from those that updated them."""
        for part in self._parts:
            self.world.complete(part.segment.data, part.cuts)

    def update(self, part: Part, run: slice, lr: float, gradient_scale: float) -> None:
        """Update the range `run` of a part, within its own share; the gradient counts times `gradient_scale`."""
        raise TypeError(f"{type(self).__name__} has no update of its own")

    def zero_grad(self) -> None:
        """Treat every gradient as zero; the next one overwrites it (see `Tensor.discard_grad`)."""
        for parameter in self.parameters:
            parameter.discard_grad()

    def moments(self) -> list[tuple[Array, ...]]:
        """Return the moments of each parameter that requires a gradient, in their order and shapes.

        They are not copies, until a parameter is frozen or given other memory. Of several processes the first one
        gets copies of all moments, from their owners, and the others get nothing.
        """
        self._place()
        found = self._moments_by_id()
        return [found[id(parameter)] for parameter in self._trained] if found else []

    def load_moments(self, moments: Sequence[Sequence[ArrayLike]]) -> None:
        """Copy moments as `moments` returns them; of several processes each has all, and keeps its share."""
        self._place()
        given = {id(parameter): each for parameter, each in zip(self._trained, moments, strict=True)}
        for part in self._parts:
            for member, place in part.members():
                run = overlap(place, part.own)
                for own, array in zip(part.moments_of(run), given[id(member)], strict=True):
                    own[...] = np.asarray(array).reshape(-1)[run.start - place.start : run.stop - place.start]

    def state_dict(self) -> dict[str, Array]:
        """Return the number of steps, and the moments by the number of their parameter, as in "3.m"; not copies."""
        self._place()
        found, state = self._moments_by_id(), {"steps": np.array(self.steps)}
        for index, parameter in enumerate(self.parameters):
            moments = zip(self.moment_names, found.get(id(parameter), ()), strict=False)
            state.update({f"{index}.{name}": array for name, array in moments})
        return state

    def load_state_dict(self, state: Mapping[str, ArrayLike]) -> None:
        """Copy what `state_dict` returned into this optimizer of the same parameters.

        Raises ShapeError if a name is missing or unknown or has another shape; then nothing is changed.
        """
        own, given = self.state_dict(), {name: np.asarray(array) for name, array in state.items()}
        missing, surplus = own.keys() - given.keys(), given.keys() - own.keys()
        if missing or surplus:
            raise ShapeError(
                f"the state does not fit the optimizer: missing {sorted(missing)}, unknown {sorted(surplus)}"
            )
        for name, array in own.items():
            if given[name].shape != array.shape:
                raise ShapeError(f"{name} has shape {given[name].shape}, but the optimizer needs {array.shape}")
        self.steps = int(given.pop("steps"))
        numbers = (index for index, parameter in enumerate(self.parameters) if parameter.requires_grad)
        kept = {index: self.moments_kept(self.parameters[index]) for index in numbers}
        self.load_moments([[given[f"{index}.{name}"] for name in names] for index, names in kept.items()])

    def _place(self) -> None:
        """Follow the parameters: `Module.initialise` gives them other memory, and freezing changes which are trained.

        A parameter that is trained before and after keeps its moments; those of all others are zero. Raises RunError
        if that happens while the moments are divided among processes.
        """
        placed = [parameter.data if parameter.requires_grad else None for parameter in self.parameters]
        if self._placed is not None and all(map(operator.is_, placed, self._placed)):
            return
        trained = [parameter for parameter in self.parameters if parameter.requires_grad]
        if not trained:
            raise InputError(
                f"an optimizer needs parameters that require a gradient; of the {len(placed)} given, none does"
            )
        if self._parts and self.world.size > 1:
            raise RunError("parameters are neither frozen nor given other memory while processes train them together")
        check_apart(trained)
        before = self._moments_by_id()
        self._parts = [part for group in self.groups for part in self._parts_of(group)]
        for key, moments in self._moments_by_id().items():
            for new, old in zip(moments, before.get(key, ()), strict=False):
                new[...] = old
        self._gradients = [gradient_array(parameter) for parameter in trained]
        self._trained, self._placed = trained, placed

    def _parts_of(self, group: Group) -> list[Part]:
        decay, vectors_too = (
            group.get("weight_decay", self.weight_decay),
            group.get("decay_vectors", self.decay_vectors),
        )
        matrices = [parameter for parameter in group["params"] if parameter.ndim >= 2]
        vectors = [parameter for parameter in group["params"] if parameter.ndim < 2]
        found = []
        for members, rate in ((matrices, decay), (vectors, decay if vectors_too else 0.0)):
            for names in dict.fromkeys(map(self.moments_kept, members)):
                alike = [member for member in members if self.moments_kept(member) == names]
                for segment in segments(alike):
                    cuts = self.cuts(segment) if self._owners is None else self._borders(segment, self._owners)
                    own = slice(cuts[self.world.rank], cuts[self.world.rank + 1])
                    moments = [np.zeros(own.stop - own.start, segment.data.dtype) for _ in names]
                    found.append(Part(segment, cuts, own, group.get("lr"), rate, moments))
        return found

    def moments_kept(self, parameter: Tensor) -> tuple[str, ...]:
        """Return the names of the moments that a parameter has, the first of `moment_names`; by default all."""
        return self.moment_names

    def cuts(self, segment: Segment) -> list[int]:
        """Return where in a segment the shares of the processes begin and end."""
        return even_cuts(slice(0, segment.data.size), self.world.size)

    def _borders(self, segment: Segment, owners: Mapping[int, int]) -> list[int]:
        """Return where in a segment the parameters of each owner begin and end; they are in the order of the owners."""
        sizes = np.bincount([owners[id(m)] for m in segment.members], [m.size for m in segment.members])
        own = np.zeros(self.world.size + 1, np.int64)
        own[1 : 1 + len(sizes)] = sizes
        return np.cumsum(own).tolist()

    def _add_up_gradients(self) -> None:
        """Let each process have the sum over all processes of the gradients in its share.

        A parameter has a gradient if it has one in any process: one that got no text computes none.
        """
        if self.world.size == 1 or self._owners is not None:
            return
        having = np.array([float(parameter.has_gradient) for parameter in self._trained])
        self.world.add(having)
        for parameter in itertools.compress(self._trained, having):
            assert parameter.grad is not None  # reading writes the zeros of a discarded gradient
        for part in self._parts:
            self.world.reduce(part.segment.gradient, part.cuts)

    def _collect_gradients(self) -> None:
        """Copy gradients that are in other arrays, because `grad` was set, into the flat ones."""
        for parameter, gradient in zip(self._trained, self._gradients, strict=True):
            if parameter.has_gradient and (found := gradient_array(parameter)) is not gradient:
                gradient[...] = found
                parameter.grad = gradient

    def _moments_by_id(self) -> dict[int, tuple[Array, ...]]:
        """Return the moments of each parameter, or nothing if this is not the first of several processes."""
        found: dict[int, tuple[Array, ...]] = {}
        for part in self._parts:
            gathered = [self.world.gather(moment, part.cuts) for moment in part.moments]
            whole = [moment for moment in gathered if moment is not None]
            if len(whole) == len(gathered):
                for member, place in part.members():
                    found[id(member)] = tuple(moment[place].reshape(member.shape) for moment in whole)
        return found
