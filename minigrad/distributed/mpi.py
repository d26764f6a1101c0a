"""Processes that MPI connects, through mpi4py.

MPI, the message passing interface, has been the standard on supercomputers since 1994: `mpiexec -n 4 PROGRAM` starts
the program four times, on this machine or on others, and each process can send arrays to the others. This module uses a
few of its collective operations, and messages from one process to another. Results are the same on every run with an
MPI that follows the advice of the standard, to add in an order that depends on the number of processes and on the sizes
alone (MPI 4.1, section 6.9.1, advice to implementors).
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from minigrad.distributed.world import Value, World
from minigrad.errors import RunError
from minigrad.system import processors
from minigrad.system.terminal import printable, to_standard_error

if TYPE_CHECKING:
    from minigrad.typing import Array

_PATIENCE = 3.0  # seconds until a process that failed assumes that the others have not
_CHILD = """
import sys
word = ""
for line in sys.stdin:
    word = line
if word.strip():
    sys.stderr.write(word)
"""


class Processes(World):
    """The processes of an MPI communicator."""

    def __init__(self, communicator: Any) -> None:
        self._all = communicator
        self._leaving = communicator.Dup()  # a communicator of its own: a process may leave while others wait for a sum
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
        with _connected() as mpi:
            self._all.Allreduce(mpi.IN_PLACE, array)

    def share(self, value: Value) -> Value:
        """Return the value of the first process."""
        with _connected():
            return self._all.bcast(value)

    def collect(self, value: Value) -> list[Value]:
        """Return the value of every process, in order."""
        with _connected():
            return self._all.allgather(value)

    def reduce(self, array: Array, cuts: Sequence[int]) -> None:
        """Sum this process's part of a flat array over all processes, in place; the rest is lost."""
        own = array[cuts[self.rank] : cuts[self.rank + 1]]
        total = own.copy()  # MPI must not write the sum over the part that it sums
        with _connected():
            self._all.Reduce_scatter(array[cuts[0] : cuts[-1]], total, _counts(cuts))
        own[...] = total

    def complete(self, array: Array, cuts: Sequence[int]) -> None:
        """Replace the parts of the other processes in a flat array by the values of their owners."""
        with _connected() as mpi:
            self._all.Allgatherv(mpi.IN_PLACE, [array[cuts[0] : cuts[-1]], _counts(cuts)])

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
        return _connected()(sending.Wait)  # a context manager is a decorator too

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
def _connected() -> Iterator[Any]:
    """Yield MPI, and explain an error of it, such as a connection that broke."""
    from mpi4py import MPI

    try:
        yield MPI
    except MPI.Exception as error:
        reason = " ".join(error.Get_error_string().split())
        raise RunError(f"processes lost their connection: {reason}; the last checkpoint is intact") from None


class LastWords:
    """A sentence for standard error, printed if this process is killed: not if it calls `forget`, or ends as usual.

    If one process of a job dies, mpiexec kills all others at once, and none of them can say what remains. So the first
    one has a child, a tiny Python, which keeps the sentence to print. It reads from a pipe, and learns from the end of
    the pipe that its parent is gone. A session of its own keeps it alive when the others are killed.
    """

    def __init__(self) -> None:
        # Isolated and without site packages: it starts in hundredths of a second, and needs few megabytes.
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CHILD],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
            encoding="utf-8",
        )
        atexit.register(self.forget)

    def say(self, sentence: str) -> None:
        """Replace the sentence; an empty one prints nothing."""
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):  # the child was killed, so nothing can be said
            self._child.stdin.write(printable(" ".join(sentence.split())) + "\n")
            self._child.stdin.flush()

    def forget(self) -> None:
        """End the child; it prints nothing."""
        assert self._child.stdin is not None
        if not self._child.stdin.closed:
            self.say("")
            with contextlib.suppress(OSError):
                self._child.stdin.close()
            self._child.wait()
