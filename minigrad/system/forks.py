"""Copies of this process that compute beside it.

Threads of one process share the lock of the interpreter: each waits whenever another one runs Python. A copy that was
made by fork(2) has a lock of its own. It begins with everything that its parent had then, at hardly any cost, because
both keep the same pages of memory until one of them writes. Only an anonymous `mmap` stays common to both.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
import warnings
import weakref
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any, NoReturn

from minigrad.errors import RunError
from minigrad.system import hardware
from minigrad.system.files import reason
from minigrad.system.signals import EXIT_CODES

_OPEN = Path("/proc/self/fd")  # an entry for each open file of this process

ARE_POSSIBLE = sys.platform == "linux" and _OPEN.exists()
"""Whether a process may be copied. Windows cannot, and Apple's libraries fail in a copy."""


class Fork:
    """A copy of this process that calls `answer` for every question, one at a time, in a single thread.

    It ends when this object or this process does, whatever ends that. Ctrl-C, SIGTERM and SIGHUP, which a terminal
    sends to both, are left to this one. Raises RunError if the system refuses another process.
    """

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        ours, theirs = connection.Pipe()
        with warnings.catch_warnings():
            # Python warns that other threads may hold a lock, which the copy would wait for. Those of the kernels hold
            # none while they wait for work, and the copy starts its own.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                number = os.fork()
            except OSError as error:
                raise RunError(
                    f"the system refuses a copy of this process ({reason(error)}); a run with --threads 1 needs none"
                ) from None
        if number == 0:
            _answer_until_let_go(theirs, answer)
        theirs.close()
        self._connection, self._number = ours, number
        self._end = weakref.finalize(self, _let_go, ours, number)
        _alive.add(self)

    def ask(self, question: object) -> None:
        """Send a question, and return at once; `answer` waits for the reply."""
        with contextlib.suppress(BrokenPipeError):  # `answer` says how the copy ended
            self._connection.send(question)

    def answer(self) -> Any:
        """Return the answer to the last question, or raise the error that it ended with.

        Raises RunError if the process has ended.
        """
        try:
            answer, error = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise RunError(
                f"a copy of this process, which computed a share of each step, has ended ({self._end()}). --resume "
                "continues from the last checkpoint. If memory ran out: a new run with --threads 1 makes no copies"
            ) from None
        if error is not None:
            raise error
        return answer

    def memory_bytes(self) -> int:
        """Return the bytes of memory that the copy has for itself alone: what it wrote, or this process wrote anew."""
        try:
            lines = Path(f"/proc/{self._number}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        except OSError:  # it has ended, or the system does not tell
            return 0
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))


_alive: weakref.WeakSet[Fork] = weakref.WeakSet()


def memory_bytes_of_all() -> int:
    """Return the memory, in bytes, that the copies of this process have beside it."""
    return sum(each.memory_bytes() for each in _alive)


def _let_go(ours: connection.Connection, number: int) -> str:
    """End a copy, once it has answered; return how it ended."""
    ours.close()
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    except ChildProcessError:  # a handler of SIGCHLD has waited for it
        return "unknown"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _answer_until_let_go(questions: connection.Connection, answer: Callable[[Any], Any]) -> NoReturn:
    """Answer questions until the parent closes the connection or ends; never return into the code of the parent."""
    code = 1
    try:
        for number in EXIT_CODES:
            signal.signal(number, signal.SIG_IGN)
        # What else is open belongs to the parent: its locks, and its ends of all connections, which must end with it.
        for descriptor in [int(path.name) for path in _OPEN.iterdir()]:
            if descriptor > 2 and descriptor != questions.fileno():
                with contextlib.suppress(OSError):  # that of the listing itself
                    os.close(descriptor)
        hardware.prepare(1)
        while True:
            question = questions.recv()
            try:
                questions.send((answer(question), None))
            except Exception as error:
                questions.send((None, error))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        code = 0
    except BaseException:  # such as an error that cannot be sent
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)  # without the parent's exit handlers, and without its unwritten output
