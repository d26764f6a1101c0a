"""What all optimizers share: groups of parameters, their moments in flat arrays, clipping, and a state to save.

A step is one call of a kernel for each range of memory whose parameters are trained alike. A model's parameters are
views of one flat array, so a whole model needs two calls: one for its matrices, one for its vectors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd import observers
from minigrad.autograd.tensor import Tensor
from minigrad.distributed.shares import even_cuts, overlap
from minigrad.distributed.world import ALONE, World, total
from minigrad.errors import DivergenceError, InputError, RunError, ShapeError
from minigrad.kernels.rowwise.updates import sum_of_squares
from minigrad.optim.clip import LARGEST_NORM, clip_factor
from minigrad.optim.division import Divided, Owned, Part
from minigrad.optim.flat import Segment, check_apart, check_memory, gradient_array, segments
from minigrad.optim.settings import GroupSettings, ParameterGroup, checked, groups_of
from minigrad.typing import Array


class Optimizer:
    """The base of all optimizers; each has its `moment_names` and implements `update`.

    `parameters` are tensors, or groups: dictionaries with tensors as "params", and with an "lr", a "weight_decay" or
    "decay_vectors" of their own. Parameters with fewer than two axes (norm weights, biases) are decayed only with
    `decay_vectors`: zero is not a sensible value for them.
    A step changes only parameters that have a gradient (`Tensor.has_gradient`). A parameter that the loss does not
    depend on is neither decayed nor moved, and a frozen one is skipped until it is trained again.
    Raises InputError if no parameter requires a gradient, if a parameter is in two groups, if two share memory, and for
    settings that are unknown or cannot be used (`minigrad.optim.settings`).
    """

    moment_names: tuple[str, ...] = ()  # a parameter may have only the first of these (`moments_kept`)

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[GroupSettings],
        *,
        lr: float,
        weight_decay: float,
        decay_vectors: bool,
    ) -> None:
        self.lr = self._first_lr = checked(self, "lr", lr)
        self.steps = 0
        self.groups = groups_of(
            self,
            parameters,
            weight_decay=checked(self, "weight_decay", weight_decay),
            decay_vectors=checked(self, "decay_vectors", decay_vectors),
        )
        if lr <= 0 and any(group.lr is not None for group in self.groups):
            raise InputError(f"groups with an lr of their own need an optimizer with an lr above 0, not {lr}")
        self.parameters = [parameter for group in self.groups for parameter in group.parameters]
        self._division = Divided(ALONE)
        self._parts: list[Part] = []
        self._placed: list[Array | None] | None = None  # the memory of each parameter when the parts were made
        self._place()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy, whose parts are made anew: they must share the memory of the copied parameters."""
        self.__dict__ |= state
        self._placed = None

    def divide_among(self, world: World, owners: Mapping[int, int] | None = None) -> None:
        """Let each process of a job update its share of the parameters, from the first step on.

        A step then uses the sum of the gradients of all processes, and ends with the same weights in all of them. With
        `owners` (the process that owns a parameter, by the parameter's id) see `minigrad.optim.division.Owned`.
        Raises RunError if steps were taken.
        """
        if world.size == 1:
            return
        if self.steps:
            raise RunError(f"an optimizer is divided among processes before its first step, not after {self.steps}")
        self._division = Divided(world) if owners is None else Owned(world, owners)
        self._placed, self._parts = None, []
        self._place()

    def step(self, lr: float | None = None, max_norm: float = math.inf) -> float:
        """Clip the gradient to `max_norm` and update every parameter that has one; return the norm before clipping.

        `lr` is the learning rate of this step, for example from a schedule; the learning rates of groups follow it in
        proportion. A norm that is not finite is returned and nothing is changed. Every gradient is clipped at least to
        a norm of 2^60 (`LARGEST_NORM`): float32 cannot hold the squares of much larger numbers.
        Raises InputError for a setting that cannot be used; DivergenceError if the update made weights that are not
        finite.
        """
        rate = checked(self, "lr", self.lr if lr is None else lr)
        self._place()
        self._collect_gradients()
        with observers.surround(operator.methodcaller("update", type(self).__name__)):
            self._division.add_up_gradients(self._trained, self._parts)
            spans = [(part, span) for part in self._parts for span in part.spans()]
            norm = self._norm(part.segment.gradient[span] for part, span in spans)
            if math.isfinite(norm):
                gradient_scale = clip_factor(norm, min(max_norm, LARGEST_NORM))
                self.steps += 1
                for part, span in spans:
                    own_rate = rate if part.lr is None else part.lr * (rate / self._first_lr)
                    self.update(part, span, own_rate, gradient_scale)
                for parameter in self.parameters:
                    parameter.version.count += parameter.has_gradient
                if not math.isfinite(self._norm(part.segment.data[span] for part, span in spans)):
                    raise DivergenceError(
                        f"{type(self).__name__} made weights that are not finite; the learning rate {rate:g} is too "
                        "large"
                    )
                self._division.end_step(self._parts)
        return norm

    def _norm(self, arrays: Iterable[Array]) -> float:
        """Return the norm of some arrays of this process, and those of all others, taken as one long vector."""
        return math.sqrt(total(self._division.world, math.fsum(map(sum_of_squares, arrays))))

    def complete(self) -> None:
        """Let every process have all weights from their owners; without owners, every step ends so."""
        self._division.complete(self._parts)
        if self._division.world.size > 1:  # weights of others have arrived: copies made of them are old
            for parameter in self.parameters:
                parameter.version.count += 1

    def update(self, part: Part, span: slice, lr: float, gradient_scale: float) -> None:
        """Update a span within the share of a part; the gradient counts times `gradient_scale`."""
        raise TypeError(f"{type(self).__name__} has no update of its own")

    def zero_grad(self) -> None:
        """Treat every gradient as zero; the next one overwrites it (see `Tensor.discard_grad`)."""
        for parameter in self.parameters:
            parameter.discard_grad()

    def moments(self) -> list[tuple[Array, ...]]:
        """Return the moments of each parameter that requires a gradient, in their order and shapes.

        They are not copies, until a parameter is frozen or given other memory. The first of several processes gets
        copies of all moments, and the others get an empty list.
        """
        self._place()
        found = self._moments_by_id()
        return [found[id(parameter)] for parameter in self._trained] if found else []

    def load_moments(self, moments: Sequence[Sequence[ArrayLike]]) -> None:
        """Copy moments as `moments` returns them; each of several processes is given all, and keeps its share.

        Raises ValueError if this optimizer has another number of moments.
        """
        self._place()
        given = {id(parameter): each for parameter, each in zip(self._trained, moments, strict=True)}
        for part in self._parts:
            for member, place in part.members():
                span = overlap(place, part.share)
                for moment, array in zip(part.moments_of(span), given[id(member)], strict=True):
                    moment[...] = np.asarray(array).reshape(-1)[span.start - place.start : span.stop - place.start]

    def state_dict(self) -> dict[str, Array]:
        """Return the number of steps, and the moments under the number of their parameter, as in "3.m"; not copies.

        Of several processes, the first gets copies of all moments, and the others get the number of steps only.
        """
        self._place()
        found, state = self._moments_by_id(), {"steps": np.array(self.steps)}
        for index, parameter in enumerate(self.parameters):
            moments = zip(self.moment_names, found.get(id(parameter), ()), strict=False)
            state.update({f"{index}.{name}": array for name, array in moments})
        return state

    def load_state_dict(self, state: Mapping[str, ArrayLike]) -> None:
        """Copy what `state_dict` returned into this optimizer of the same parameters.

        Each of several processes is given what the first one got, and keeps its share.
        Raises ShapeError if a name is missing or unknown or has another shape; then nothing is changed.
        """
        trained = {index: each for index, each in enumerate(self.parameters) if each.requires_grad}
        kept = {index: self.moments_kept(parameter) for index, parameter in trained.items()}
        shapes = {f"{index}.{name}": trained[index].shape for index, names in kept.items() for name in names}
        needed, given = {"steps": (), **shapes}, {name: np.asarray(array) for name, array in state.items()}
        missing, surplus = needed.keys() - given.keys(), given.keys() - needed.keys()
        if missing or surplus:
            raise ShapeError(f"the state does not fit: missing {sorted(missing)}, unknown {sorted(surplus)}")
        for name, shape in needed.items():
            if given[name].shape != shape:
                raise ShapeError(f"{name} has shape {given[name].shape}, but the optimizer needs {shape}")
        self.load_moments([[given[f"{index}.{name}"] for name in names] for index, names in kept.items()])
        self.steps = int(given["steps"])

    def _place(self) -> None:
        """Follow the parameters: `Module.initialise` gives them other memory, and freezing changes which are trained.

        A parameter that is trained before and after keeps its moments; those of all others are zero.
        """
        placed = [parameter.data if parameter.requires_grad else None for parameter in self.parameters]
        if self._placed is not None and all(map(operator.is_, placed, self._placed)):
            return
        trained = [parameter for parameter in self.parameters if parameter.requires_grad]
        if not trained:
            raise InputError(f"an optimizer needs parameters that require a gradient; none of these {len(placed)} does")
        if self._parts and self._division.world.size > 1:
            raise RunError("parameters are neither frozen nor given other memory while processes train them together")
        for parameter in trained:
            check_memory(parameter)
        check_apart(trained)
        before = self._moments_by_id()
        self._parts = [part for group in self.groups for part in self._parts_of(group)]
        for key, moments in self._moments_by_id().items():
            for new, old in zip(moments, before.get(key, ()), strict=False):
                new[...] = old
        self._gradients = [gradient_array(parameter) for parameter in trained]
        self._trained, self._placed = trained, placed

    def _parts_of(self, group: ParameterGroup) -> list[Part]:
        matrices = [parameter for parameter in group.parameters if parameter.ndim >= 2]
        vectors = [parameter for parameter in group.parameters if parameter.ndim < 2]
        parts = []
        for members, is_decayed in ((matrices, True), (vectors, group.decay_vectors)):
            for names in dict.fromkeys(map(self.moments_kept, members)):
                for segment in segments(member for member in members if self.moments_kept(member) == names):
                    cuts = self._division.cuts(segment, self.cuts)
                    share = slice(*cuts[self._division.world.rank :][:2])
                    moments = [np.zeros(share.stop - share.start, segment.data.dtype) for _ in names]
                    parts.append(Part(segment, cuts, share, group.lr, group.weight_decay * is_decayed, moments))
        return parts

    def moments_kept(self, parameter: Tensor) -> tuple[str, ...]:
        """Return the names of a parameter's moments: by default all `moment_names`."""
        return self.moment_names

    def cuts(self, segment: Segment, count: int) -> list[int]:
        """Return where in a segment `count` shares of about equal cost begin, and where the last one ends."""
        return even_cuts(slice(0, segment.data.size), count)

    def _collect_gradients(self) -> None:
        """Copy gradients that are in other arrays, because `grad` was set, into the flat ones."""
        for parameter, gradient in zip(self._trained, self._gradients, strict=True):
            if parameter.has_gradient and (found := gradient_array(parameter)) is not gradient:
                gradient[...] = found
                parameter.grad = gradient

    def _moments_by_id(self) -> dict[int, tuple[Array, ...]]:
        """Return the moments of each parameter, in the first of several processes; in the others nothing."""
        found: dict[int, tuple[Array, ...]] = {}
        for part in self._parts:
            gathered = [self._division.world.gather(moment, part.cuts) for moment in part.moments]
            whole = [moment for moment in gathered if moment is not None]
            if len(whole) == len(gathered):
                for member, place in part.members():
                    found[id(member)] = tuple(moment[place].reshape(member.shape) for moment in whole)
        return found
