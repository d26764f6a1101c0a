"""Which process updates which parameters: each of several its share, and one process all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.distributed.shares import overlap
from minigrad.distributed.world import World
from minigrad.optim.flat import Segment
from minigrad.typing import Array


@dataclass
class Part:
    """A segment whose parameters are trained alike, and the moments of this process's share of it.

    All spans, including the places of the members, are places in the flat arrays of the segment. Process r has the
    share from ``cuts[r]`` to ``cuts[r + 1]``.
    """

    segment: Segment
    cuts: list[int]
    share: slice
    lr: float | None  # None: the optimizer's
    decay: float
    moments: list[Array]  # of the share, as flat arrays

    def members(self) -> list[tuple[Tensor, slice]]:
        """Return the parameters of the part and their places."""
        return list(zip(self.segment.members, self.segment.places(), strict=True))

    def spans(self) -> list[slice]:
        """Return the spans within the share in which every parameter has a gradient."""
        found = (overlap(span, self.share) for span in self.segment.spans())
        return [span for span in found if span.stop > span.start]

    def moments_of(self, span: slice) -> list[Array]:
        """Return the moments of a span within the share; not copies."""
        return [moment[span.start - self.share.start : span.stop - self.share.start] for moment in self.moments]


class Divided:
    """Each process updates its share of every part, and all have the same weights after each step."""

    def __init__(self, world: World) -> None:
        self.world = world

    def cuts(self, segment: Segment, between: Callable[[Segment, int], list[int]]) -> list[int]:
        """Return the borders of the shares of a segment; ``between(segment, count)`` returns even ones."""
        return between(segment, self.world.size)

    def add_up_gradients(self, parameters: Sequence[Tensor], parts: Sequence[Part]) -> None:
        """Replace the gradients in the share of a process by their sums over all processes.

        A parameter has a gradient if it has one in any process, even one without data.
        """
        having = np.array([float(parameter.has_gradient) for parameter in parameters])
        self.world.add(having)
        for parameter in itertools.compress(parameters, having):
            _ = parameter.grad  # reading writes the zeros of a discarded gradient
        for part in parts:
            self.world.reduce(part.segment.gradient, part.cuts)

    def end_step(self, parts: Sequence[Part]) -> None:
        """Give all processes the updated weights of each part."""
        for part in parts:
            self.world.complete(part.segment.data, part.cuts)

    def complete(self, parts: Sequence[Part]) -> None:
        """Exchange the weights that `end_step` left as they were."""


class Owned(Divided):
    """Each process updates the parameters that it owns, and alone computes their gradients.

    `owners` gives the process by the id of a parameter; the parameters of a segment are in the order of their owners.
    The other processes get the weights when `complete` is called.
    """

    def __init__(self, world: World, owners: Mapping[int, int]) -> None:
        super().__init__(world)
        self._owners = owners

    def cuts(self, segment: Segment, between: Callable[[Segment, int], list[int]]) -> list[int]:
        """Return where in a segment the parameters of each owner begin and end."""
        owners = [self._owners[id(member)] for member in segment.members]
        sizes = np.bincount(owners, [member.size for member in segment.members], minlength=self.world.size)
        return [0, *np.cumsum(sizes.astype(np.int64)).tolist()]

    def add_up_gradients(self, parameters: Sequence[Tensor], parts: Sequence[Part]) -> None:
        """Leave the gradients as they are: no other process has computed any."""

    def end_step(self, parts: Sequence[Part]) -> None:
        """Leave the weights as they are."""

    def complete(self, parts: Sequence[Part]) -> None:
        """Exchange the weights of the shares."""
        super().end_step(parts)
