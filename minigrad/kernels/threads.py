"""Share ranges of rows among a pool of threads.

Kernels are plain loops over a range of rows and release the GIL, so plain threads run them in parallel. A dispatch
costs 10 microseconds in a row of dispatches, but over 100 in a training step: there the other thread has been suspended
since the last one, and caches are cold (`benchmarks/threads.py`). Shorter work stays with the caller, and the caller
always computes one share itself. Every row is computed the same way in every thread, so results do not depend on the
number of threads.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable

from minigrad.system import hardware

Loop = Callable[[int, int], object]

_INLINE_BELOW = 4_000_000  # element operations: about half a millisecond, several times the cost of a dispatch


class _ThreadState(threading.local):
    """Whether this thread computes a share: then the loops that it calls stay in it, as all threads have shares."""

    has_share = False


_state = _ThreadState()


class _Pool:
    """Threads that wait for work; `count` includes the caller."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.jobs: queue.SimpleQueue[tuple[Loop, int, int, queue.SimpleQueue[BaseException | None]] | None] = (
            queue.SimpleQueue()
        )
        for number in range(count - 1):
            threading.Thread(target=self._work, name=f"minigrad-{number}", daemon=True).start()

    def _work(self) -> None:
        _state.has_share = True
        while (job := self.jobs.get()) is not None:
            loop, start, stop, done = job
            try:
                loop(start, stop)
            except BaseException as error:
                done.put(error)
            else:
                done.put(None)
            # Hold no arrays while waiting for the next job.
            del job, loop, done

    def run(self, loop: Loop, rows: int) -> None:
        shares = min(self.count, rows)
        cuts = [rows * share // shares for share in range(shares + 1)]
        done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        for start, stop in itertools.pairwise(cuts[1:]):
            self.jobs.put((loop, start, stop, done))
        _state.has_share = True
        try:
            loop(cuts[0], cuts[1])
        finally:
            _state.has_share = False
            errors = [done.get() for _ in range(shares - 1)]
        for error in errors:
            if error is not None:
                raise error

    def close(self) -> None:
        for _ in range(self.count - 1):
            self.jobs.put(None)


_pool: _Pool | None = None


def set_threads(count: int) -> None:
    """Use `count` threads, the caller included, from now on; must not be called while kernels run in other threads."""
    global _pool
    if _pool is not None:
        _pool.close()
    _pool = _Pool(count)


def over_rows(loop: Loop, rows: int, work_per_row: int) -> None:
    """Call ``loop(start, stop)`` on ranges that together cover ``range(rows)``.

    `work_per_row` is the number of element operations of a row; it decides whether sharing the work pays.
    """
    global _pool
    if _pool is None:
        _pool = _Pool(hardware.threads())
    if _pool.count == 1 or _state.has_share or rows < 2 or rows * work_per_row < _INLINE_BELOW:
        loop(0, rows)
    else:
        _pool.run(loop, rows)


def side_by_side(task: Callable[[int], object], count: int) -> None:
    """Call ``task(0)`` to ``task(count - 1)``, shared among all threads; kernels inside a task stay in its thread."""

    def tasks(start: int, stop: int) -> None:
        for number in range(start, stop):
            task(number)

    over_rows(tasks, count, _INLINE_BELOW)


hardware.listeners.append(set_threads)


def _forget_pool() -> None:
    # Threads do not survive a fork: the child starts its own.
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
