"""Processes that MPI connects, through mpi4py.

MPI, the message passing interface, is the standard of supercomputers since 1994: `mpiexec -n 4 PROGRAM` starts the
program four times, on this machine or on others, and each process can send arrays to the others. This module uses six
of its collective operations, and messages from one process to another. All results are the same on every run: an MPI
adds in an order that depends on the number of processes and on the sizes alone (MPI 4.1, section 6.9.1, advice to
implementors).
"""

from __future__ import annotations

import contextlib
import itertools
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from minigrad.distributed.last_words import LastWords
from minigrad.distributed.world import Value
from minigrad.errors import RunError
from minigrad.system import processors
from minigrad.system.terminal import to_standard_error

if TYPE_CHECKING:
    from minigrad.typing import Array

_PATIENCE = 3.0  # seconds until a process that failed assumes that the others have not


class Processes:
    """The processes of an MPI communicator."""

    def __init__(self, communicator: Any) -> None:
        self._all = communicator
        self._leaving = communicator.Dup()  # apart from all else: a process may leave while others wait for a sum
        self.rank, self.size = int(communicator.rank), int(communicator.size)
        mine = (platform.node(), processors.allowed())
        self.sharing = self.collect(mine).count(mine)
        self._last_words = LastWords() if self.rank == 0 else None

    def last_word(self, sentence: str) -> None:
        """Have the first process print a sentence if it is ended from outside."""
        if self._last_words is not None:
            self._last_words.say(sentence)

    def add(self, array: Array) -> None:
        """Replace a small array by the sum over all processes, the same bits in each."""
        from mpi4py import MPI

        with _connected():
            self._all.Allreduce(MPI.IN_PLACE, array)

    def share(self, value: Value) -> Value:
        """Return the value of the first process."""
        with _connected():
            return self._all.bcast(value)

    def collect(self, value: Value) -> list[Value]:
        """Return the value of every process, in order."""
        with _connected():
            return self._all.allgather(value)

    def reduce(self, array: Array, cuts: Sequence[int]) -> None:
        """Replace the own part of a flat array by its sum over all processes; the rest is lost."""
        own = array[cuts[self.rank] : cuts[self.rank + 1]]
        total = own.copy()  # MPI puts the sum into another place than the part that it is of
        with _connected():
            self._all.Reduce_scatter(array[cuts[0] : cuts[-1]], total, _counts(cuts))
        own[...] = total

    def complete(self, array: Array, cuts: Sequence[int]) -> None:
        """Replace every part of a flat array but the own one by that of its owner."""
        from mpi4py import MPI

        with _connected():
            self._all.Allgatherv(MPI.IN_PLACE, [array[cuts[0] : cuts[-1]], _counts(cuts)])

    def gather(self, part: Array, cuts: Sequence[int]) -> Array | None:
        """Return the parts of all processes as one flat array in the first process, and None in the others."""
        import numpy as np

        whole = np.empty(cuts[-1] - cuts[0], part.dtype) if self.rank == 0 else None
        with _connected():
            self._all.Gatherv(part, None if whole is None else [whole, _counts(cuts)])
        return whole

    def send(self, array: Array, to: int) -> Callable[[], object]:
        """Begin to send an array to another process; return what waits until the array may be changed."""
        with _connected():
            sending = self._all.Isend(array, to)

        def wait() -> None:
            with _connected():
                sending.Wait()

        return wait

    def receive(self, array: Array, source: int) -> None:
        """Fill an array with the next one that another process sends to this one."""
        with _connected():
            self._all.Recv(array, source)

    def leave(self, code: int, message: str) -> None:
        """Leave the job with an exit code; `message` is printed once if all processes leave, as after bad input.

        If the others go on, the message names this process, and all are ended: they would wait for it for ever.
        """
        if self._last_words is not None:
            self._last_words.forget()
        if code == 0:
            return
        everybody, end = self._leaving.Ibarrier(), time.monotonic() + _PATIENCE
        while not (all_leave := everybody.Test()) and time.monotonic() < end:
            time.sleep(0.01)
        if all_leave:
            if self.rank == 0 and message:
                to_standard_error(message)
            return
        where = f"process {self.rank} of {self.size}, on {platform.node()}"
        to_standard_error(f"{message} ({where}; it ended the other processes)")
        self._all.Abort(code)


def _counts(cuts: Sequence[int]) -> list[int]:
    return [stop - start for start, stop in itertools.pairwise(cuts)]


@contextlib.contextmanager
def _connected() -> Iterator[None]:
    """Explain an error of MPI, such as a connection that broke."""
    from mpi4py import MPI

    try:
        yield
    except MPI.Exception as error:
        reason = " ".join(error.Get_error_string().split())
        raise RunError(f"processes lost their connection: {reason}; the last checkpoint is intact") from None
