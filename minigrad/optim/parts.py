"""Parameters that are trained alike, with their moments, and the share of them that this process updates."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.autograd.tensor import Tensor
from minigrad.distributed.shares import overlap
from minigrad.optim.flat import Segment
from minigrad.typing import Array


@dataclass
class Part:
    """A segment whose parameters are trained alike, and the moments of the own share of it.

    All ranges, also the places of the members, are places in the flat arrays of the segment. The share of process r is
    from ``cuts[r]`` to ``cuts[r + 1]``; one process alone owns everything.
    """

    segment: Segment
    cuts: list[int]
    own: slice
    lr: float | None  # None: that of the optimizer
    decay: float
    moments: list[Array]  # of the own share, as flat arrays

    def members(self) -> list[tuple[Tensor, slice]]:
        """Return the parameters of the part and their places."""
        return list(zip(self.segment.members, self.segment.places(), strict=True))

    def own_runs(self) -> list[slice]:
        """Return the ranges within the own share in which every parameter has a gradient."""
        found = (overlap(run, self.own) for run in self.segment.runs())
        return [run for run in found if run.stop > run.start]

    def moments_of(self, run: slice) -> list[Array]:
        """Return the moments of a range within the own share; not copies."""
        return [moment[run.start - self.own.start : run.stop - self.own.start] for moment in self.moments]
