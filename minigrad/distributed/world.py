"""The processes that train one model together, as each of them sees the others.

A program written for many processes runs in one as well: there a sum over all is the value itself, and nothing is sent.
So training asks for the sum, and need not know how many there are. `World` is one process, `mpi.Processes` are many.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from minigrad.errors import InputError, RunError

if TYPE_CHECKING:
    from minigrad.typing import Array

Value = TypeVar("Value")


class World:
    """All processes of a job; this class is a job of one, whose methods leave arrays and values as they are.

    A method is collective, unless it says otherwise: all processes call it at the same place.
    `cuts` divide an array among the processes: process r owns ``array[cuts[r] : cuts[r + 1]]``.
    """

    rank = 0
    """The number of this process, from 0; only the first one writes."""
    size = 1
    """The number of processes."""
    sharing = 1
    """The number of processes that share the processors of this one, itself included."""

    def last_word(self, sentence: str) -> None:
        """Have a sentence printed if this process is ended from outside, because another one died; not collective."""

    def add(self, array: Array) -> None:
        """Replace a small array by the sum over all processes, the same bits in each (an all-reduce)."""

    def share(self, value: Value) -> Value:
        """Return the value of the first process: what depends on its clock must be the same in all (a broadcast)."""
        return value

    def collect(self, value: Value) -> list[Value]:
        """Return the value of every process, in order."""
        return [value]

    def reduce(self, array: Array, cuts: Sequence[int]) -> None:
        """Sum this process's part of a flat array over all processes, in place; the rest is lost (a reduce-scatter)."""

    def complete(self, array: Array, cuts: Sequence[int]) -> None:
        """Replace the parts of the other processes in a flat array by the values of their owners (an all-gather)."""

    def gather(self, part: Array, cuts: Sequence[int]) -> Array | None:
        """Return the parts of all processes as one flat array in the first process, and None in the others."""
        return part

    def send(self, array: Array, to: int) -> Callable[[], object]:
        """Begin to send an array to another process; not collective. Return what waits until it may be changed."""
        raise ValueError(f"process 0 of 1 cannot send to process {to}")

    def receive(self, array: Array, source: int) -> None:
        """Fill an array with the next one that another process sends to this one; only these two take part."""
        raise ValueError(f"process 0 of 1 cannot receive from process {source}")


ALONE = World()
"""The world of a process that was started alone."""


def total(world: World, value: float) -> float:
    """Return the sum of a number over all processes.

    >>> total(ALONE, 1.5)
    1.5
    """
    if world.size == 1:
        return value
    import numpy as np

    array = np.array(value, np.float64)
    world.add(array)
    return float(array)


def mpiexec(world: World) -> str:
    """Return the prefix of a command that starts it in this many processes, "" for one."""
    return f"mpiexec -n {world.size} " if world.size > 1 else ""


def check_agreement(world: World, facts: Mapping[str, Any]) -> None:
    """Raise InputError in every process if a fact, such as a setting by its name, differs between two of them."""
    found = world.collect((platform.node(), dict(facts)))
    host, expected = found[0]
    for rank, (node, own) in enumerate(found):
        for name, value in expected.items():
            if own.get(name) != value:
                raise InputError(
                    f"the processes disagree on {name}: process 0 on {host} has {value}, process {rank} on {node} has "
                    f"{own.get(name)}. Every machine needs the same program, the same versions and the same files."
                )


def check_equal(world: World, what: str, digest: str, way_out: str) -> None:
    """Raise RunError in every process if the digest of `what` in one of them differs from that in the first."""
    digests = world.collect(digest)
    others = [str(rank) for rank, each in enumerate(digests) if each != digests[0]]
    if others:
        which = f"process {others[0]} has" if len(others) == 1 else f"processes {', '.join(others)} have"
        raise RunError(
            f"{which} other {what} than process 0, which must never happen: a memory or a network fault, or machines "
            f"that do not run the same program. {way_out}"
        )
