"""What all optimizers share: groups of parameters, their moments in flat arrays, clipping, and a state to save.

A step is one call of a kernel for each range of memory whose parameters are trained alike. A model's parameters are
views of one flat array, so that for a whole model these are two calls: one for its matrices, one for its vectors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Required, TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd import observers
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.rowwise.adamw import sum_of_squares
from minigrad.optim.clip import clip_factor
from minigrad.optim.flat import Segment, distinct_parameters, gradient_array, segments
from minigrad.options import unknown
from minigrad.typing import Array


class Group(TypedDict, total=False):
    """Parameters with settings of their own; what is left out is as in the optimizer."""

    params: Required[Iterable[Tensor]]
    lr: float
    weight_decay: float
    decay_vectors: bool


@dataclass
class Part:
    """A segment of parameters that are trained alike, and their moments as flat arrays."""

    segment: Segment
    lr: float | None  # None: that of the optimizer
    decay: float
    moments: list[Array]


class Optimizer:
    """The base of all optimizers; each has its `moment_names` and implements `update`.

    `parameters` are tensors, or dictionaries with tensors as "params", and with an "lr", a "weight_decay" or
    "decay_vectors" of their own. Parameters with fewer than two axes (norm weights, biases) are decayed only with
    `decay_vectors`: zero is not a sensible value for them.
    A step changes only parameters that have a gradient (`Tensor.has_gradient`): one that the loss does not depend on is
    neither decayed nor moved, and a frozen one is skipped until it is trained again.
    Raises InputError if no parameter requires a gradient, for a parameter in two groups, and for unknown names.
    """

    moment_names: tuple[str, ...] = ()  # those of a parameter may be the first of these

    def __init__(
        self, parameters: Iterable[Tensor] | Iterable[Group], *, lr: float, weight_decay: float, decay_vectors: bool
    ) -> None:
        self.lr, self.weight_decay, self.decay_vectors = lr, weight_decay, decay_vectors
        self.steps = 0
        self.groups = _groups(parameters)
        if lr <= 0 and any("lr" in group for group in self.groups):
            raise InputError(f"groups with an lr of their own need an optimizer with an lr above 0, not {lr}")
        self.parameters = distinct_parameters(parameter for group in self.groups for parameter in group["params"])
        self._parts: list[Part] = []
        self._placed: list[Array | None] | None = None  # the memory of each parameter that the parts are made for
        self._place()

    def step(self, lr: float | None = None, max_norm: float = math.inf) -> float:
        """Clip the gradient to `max_norm` and update every parameter that has one; return the norm before clipping.

        `lr` is the learning rate of this step, by a schedule for example; the learning rates of groups follow it in
        proportion. A norm that is not finite is returned and nothing is changed.
        """
        self._place()
        self._collect_gradients()
        with observers.update(type(self).__name__):
            runs = [(part, run) for part in self._parts for run in part.segment.runs()]
            norm = math.sqrt(math.fsum(sum_of_squares(part.segment.gradient[run]) for part, run in runs))
            if math.isfinite(norm):
                self.steps += 1
                rate, gradient_scale = self.lr if lr is None else lr, clip_factor(norm, max_norm)
                for part, run in runs:
                    self.update(part, run, rate if part.lr is None else part.lr * (rate / self.lr), gradient_scale)
                for parameter in self.parameters:
                    parameter.version.count += parameter.has_gradient
        return norm

    def update(self, part: Part, run: slice, lr: float, gradient_scale: float) -> None:
        """Update the range `run` of a part, whose gradient counts times `gradient_scale`."""
        raise TypeError(f"{type(self).__name__} has no update of its own")

    def zero_grad(self) -> None:
        """Treat every gradient as zero; the next one overwrites it (see `Tensor.discard_grad`)."""
        for parameter in self.parameters:
            parameter.discard_grad()

    def moments(self) -> list[tuple[Array, ...]]:
        """Return the moments of each parameter that requires a gradient, in their order and shapes.

        They are not copies, until a parameter is frozen or given other memory.
        """
        self._place()
        found = self._moments_by_id()
        return [found[id(parameter)] for parameter in self._trained]

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
        for name, array in given.items():
            own[name][...] = array

    def _place(self) -> None:
        """Follow the parameters: `Module.initialise` gives them other memory, and freezing changes which are trained.

        A parameter that is trained before and after keeps its moments; those of all others are zero.
        """
        placed = [parameter.data if parameter.requires_grad else None for parameter in self.parameters]
        if self._placed is not None and all(map(operator.is_, placed, self._placed)):
            return
        trained = [parameter for parameter in self.parameters if parameter.requires_grad]
        if not trained:
            raise InputError(
                f"an optimizer needs parameters that require a gradient; of the {len(placed)} given, none does"
            )
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
        return [
            Part(segment, group.get("lr"), rate, [np.zeros_like(segment.data) for _ in range(moments)])
            for members, rate in ((matrices, decay), (vectors, decay if vectors_too else 0.0))
            for moments, alike in self._by_number_of_moments(members).items()
            for segment in segments(alike)
        ]

    def number_of_moments(self, parameter: Tensor) -> int:
        """Return how many moments, the first of `moment_names`, a parameter has; by default all of them."""
        return len(self.moment_names)

    def _by_number_of_moments(self, parameters: Iterable[Tensor]) -> dict[int, list[Tensor]]:
        found: dict[int, list[Tensor]] = {}
        for parameter in parameters:
            found.setdefault(self.number_of_moments(parameter), []).append(parameter)
        return found

    def _collect_gradients(self) -> None:
        """Copy gradients that are in other arrays, because `grad` was set, into the flat ones."""
        for parameter, gradient in zip(self._trained, self._gradients, strict=True):
            if parameter.has_gradient and (found := gradient_array(parameter)) is not gradient:
                gradient[...] = found
                parameter.grad = gradient

    def _moments_by_id(self) -> dict[int, tuple[Array, ...]]:
        found: dict[int, tuple[Array, ...]] = {}
        for part in self._parts:
            views = [part.segment.views(moment) for moment in part.moments]
            for index, member in enumerate(part.segment.members):
                found[id(member)] = tuple(each[index] for each in views)
        return found


def _groups(parameters: Iterable[Any]) -> list[Group]:
    """Return the groups that were given; plain parameters are one group without settings of its own."""
    given = list(parameters)
    if not any(isinstance(each, dict) for each in given):
        return [Group(params=distinct_parameters(_checked(given)))]
    groups: list[Group] = []
    for each in given:
        if not isinstance(each, dict) or "params" not in each:
            raise InputError(
                "an optimizer takes parameters, or groups of them as dictionaries: {'params': [...], 'lr': 0.01}; not "
                "both"
            )
        for name in each.keys() - Group.__annotations__.keys():
            raise unknown("setting of a group", str(name), Group.__annotations__)
        members = each["params"] if not isinstance(each["params"], Tensor) else [each["params"]]
        groups.append(cast(Group, {**each, "params": distinct_parameters(_checked(members))}))
    ids = [id(parameter) for group in groups for parameter in group["params"]]
    if len(set(ids)) < len(ids):
        raise InputError("a parameter is in two groups of the optimizer; each belongs to one")
    return groups


def _checked(parameters: Iterable[Any]) -> list[Tensor]:
    found = list(parameters)
    for each in found:
        if not isinstance(each, Tensor):
            raise InputError(
                f"an optimizer takes tensors, as model.parameters() returns them, not {type(each).__name__}"
            )
    return found
