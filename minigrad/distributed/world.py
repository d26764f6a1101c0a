"""The processes that train one model together, as each of them sees the others.

A program written for many processes runs in one as well: there a sum over all is the value itself, and nothing is sent.
So training asks for the sum, and need not know how many there are. `Alone` is one process, `mpi.Processes` are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from minigrad.typing import Array

Value = TypeVar("Value")


class World(Protocol):
    """All processes of a job. A method is a meeting, unless it says otherwise: all processes call it at the same place.

    `cuts` divide an array among the processes: that with number r owns ``array[cuts[r] : cuts[r + 1]]``.
    """

    rank: int
    """The number of this process, from 0; only the first one writes."""
    size: int
    """The number of processes."""
    sharing: int
    """The number of processes that share the processors of this one, itself included."""

    def last_word(self, sentence: str) -> None:
        """Have a sentence printed if this process is ended from outside, because another one died; no meeting."""

    def add(self, array: Array) -> None:
        """Replace a small array by the sum over all processes, the same bits in each (an all-reduce)."""

    def share(self, value: Value) -> Value:
        """Return the value of the first process: what depends on its clock must be the same in all (a broadcast)."""

    def collect(self, value: Value) -> list[Value]:
        """Return the value of every process, in order."""

    def reduce(self, array: Array, cuts: Sequence[int]) -> None:
        """Replace the own part of a flat array by its sum over all processes; the rest is lost (a reduce-scatter)."""

    def complete(self, array: Array, cuts: Sequence[int]) -> None:
        """Replace every part of a flat array but the own one by that of its owner (an all-gather)."""

    def gather(self, part: Array, cuts: Sequence[int]) -> Array | None:
        """Return the parts of all processes as one flat array in the first process, and None in the others."""

    def send(self, array: Array, to: int) -> Callable[[], object]:
        """Begin to send an array to another process; no meeting. Return what waits until the array may be changed."""

    def receive(self, array: Array, source: int) -> None:
        """Fill an array with the next one that another process sends to this one; no meeting, but with that one."""


class Alone:
    """A job of one process: the sum over all processes is the value itself."""

    rank, size, sharing = 0, 1, 1

    def last_word(self, sentence: str) -> None:
        """Do nothing: no other process can end this one by its death."""

    def add(self, array: Array) -> None:
        """Leave the array as it is."""

    def share(self, value: Value) -> Value:
        """Return the value."""
        return value

    def collect(self, value: Value) -> list[Value]:
        """Return the value as the only one."""
        return [value]

    def reduce(self, array: Array, cuts: Sequence[int]) -> None:
        """Leave the array as it is."""

    def complete(self, array: Array, cuts: Sequence[int]) -> None:
        """Leave the array as it is."""

    def gather(self, part: Array, cuts: Sequence[int]) -> Array | None:
        """Return the part, which is the whole."""
        return part

    def send(self, array: Array, to: int) -> Callable[[], object]:
        """Raise an error: there is no other process."""
        raise ValueError(f"process 0 of 1 cannot send to process {to}")

    def receive(self, array: Array, source: int) -> None:
        """Raise an error: there is no other process."""
        raise ValueError(f"process 0 of 1 cannot receive from process {source}")


ALONE = Alone()
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
    """Return what stands before a command to start it in as many processes, "" for one.

    >>> mpiexec(ALONE)
    ''
    """
    return f"mpiexec -n {world.size} " if world.size > 1 else ""
