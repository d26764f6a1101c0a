"""Share ranges of rows among a pool of threads.

Kernels are plain loops over a range of rows and release the GIL, so plain threads run them in parallel. A dispatch
costs 10 microseconds if many follow each other, but over 100 in a training step: there the other thread has been
suspended since the last one, and caches are cold (`benchmarks/threads.py`). Shorter work stays with the caller, and the
caller always computes one share itself.

Processors have fast and slow cores, and other programs use some of them. So a share is cut into several ranges, and a
thread that has computed its own takes ranges from the ends of the other shares (work stealing: Blumofe and Leiserson
1999, "Scheduling multithreaded computations by work stealing", JACM 46(5)). On equal cores each thread computes the
same rows in every loop, which it finds in its cache. Every row is computed the same way in every thread and range, so
results depend neither on the number of threads nor on their speed.

Replicas of a model are such shares too, of unequal length if texts are: the loops within a share stay in its thread, as
long as all threads have shares. A thread that has none left helps with the loops of other threads.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from minigrad.system import blas, hardware

Loop = Callable[[int, int], object]
Release = Callable[[], object]  # lets threads go on that wait for one which has failed
Taken = TypeVar("Taken")

_INLINE_BELOW = 4_000_000  # element operations: about half a millisecond, several times the cost of a dispatch
_RANGE = 2_000_000  # element operations of a range: a hundred times the microseconds that a call takes
_RANGES = 4  # of a share: a slow core holds up the others by at most one range


class _ThreadState(threading.local):
    job: _Job | None = None  # that this thread computes a share of
    is_alone: bool = False  # whether its loops stay in it


_state = _ThreadState()


def _taken(take: Callable[[], Taken]) -> Iterator[Taken]:
    """Yield what `take` returns until the deque that it takes from is empty."""
    while True:
        try:
            found = take()
        except IndexError:
            return
        yield found


class _Job:
    """A loop, and the ranges of rows that no thread has begun. Threads may take from one deque at the same time.

    `outer` is the job whose share calls the loop, if any.
    """

    def __init__(self, loop: Loop, rows: int, threads: int, ranges: int, outer: _Job | None, release: Release) -> None:
        self.loop, self.outer, self.release = loop, outer, release
        spans = list(itertools.pairwise([rows * number // ranges for number in range(ranges + 1)]))
        bounds = [ranges * share // threads for share in range(threads + 1)]
        self.shares = [deque(spans[start:stop]) for start, stop in itertools.pairwise(bounds)]
        self.free = deque(range(1, threads))  # shares for other threads; the caller has share 0
        self.is_waiting = False  # whether the caller has computed its share, and waits for the others
        # What the caller gets meanwhile: an error or None from each thread that has ended, and loops to help with.
        self.inbox: queue.SimpleQueue[_Job | BaseException | None] = queue.SimpleQueue()

    def compute(self, share: int) -> None:
        """Compute the ranges of a share, then those of the others, beginning at their ends."""
        before, _state.job = _state.job, self
        try:
            for start, stop in _taken(self.shares[share].popleft):
                self.loop(start, stop)
            for other in (*self.shares[share + 1 :], *self.shares[:share]):
                for start, stop in _taken(other.pop):
                    self.loop(start, stop)
        finally:
            _state.job = before

    def join(self) -> None:
        """Compute a free share in another thread; do nothing if the caller has given up waiting for it."""
        try:
            share = self.free.popleft()
        except IndexError:
            return
        try:
            self.compute(share)
        except BaseException as error:
            self.release()
            self.inbox.put(error)
        else:
            self.inbox.put(None)

    def wait(self) -> list[BaseException | None]:
        """Let no more threads join, wait for the joined ones, and return what interrupted that and the error of each.

        Either may be None. The caller helps them meanwhile.
        """
        joined = len(self.shares) - 1
        for _ in _taken(self.free.pop):
            joined -= 1
        errors: list[BaseException | None] = []
        interruption: BaseException | None = None
        self.is_waiting = True
        while len(errors) < joined:
            try:
                message = self.inbox.get()
            except BaseException as error:  # as Ctrl-C: the others still write into the arrays of the loop
                interruption = error
                continue
            if isinstance(message, _Job):
                message.join()
            else:
                errors.append(message)
            del message  # hold no arrays while waiting
        return [interruption, *errors]


class _Pool:
    """Threads that wait for work; `count` includes the caller."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.idle: deque[None] = deque()  # as many elements as threads that wait
        for number in range(count - 1):
            threading.Thread(target=self._work, name=f"minigrad-{number}", daemon=True).start()

    def _work(self) -> None:
        blas.use_one_thread()
        while True:
            self.idle.append(None)
            job = self.jobs.get()
            self.idle.pop()
            if job is None:
                return
            job.join()
            del job  # hold no arrays while waiting for the next job

    def helpers(self, outer: _Job | None) -> int:
        """Return how many threads can help with a loop that is called in a share of `outer`, or outside of any."""
        if outer is None:
            return self.count - 1
        if outer.outer is not None:  # loops within loops stay
            return 0
        invited = self.jobs.qsize()  # threads that wait, but have work already
        return max(len(self.idle) - invited, 0) + outer.is_waiting

    def run(self, loop: Loop, rows: int, threads: int, ranges: int, release: Release) -> None:
        outer = _state.job
        job, others = _Job(loop, rows, threads, ranges, outer, release), threads - 1
        try:
            if outer is not None and outer.is_waiting:
                outer.inbox.put(job)
                others -= 1
            for _ in range(others):
                self.jobs.put(job)
            job.compute(0)
        except BaseException:  # as Ctrl-C, which may come before the loop begins
            job.release()
            raise
        finally:
            errors = job.wait()
        for error in errors:
            if error is not None:
                raise error


_pool: _Pool | None = None
_all_threads = threading.Lock()


def set_threads(count: int) -> None:
    """Use `count` threads, the caller included, from now on; must not be called while kernels run in other threads."""
    global _pool
    if _pool is not None:
        for _ in range(_pool.count - 1):
            _pool.jobs.put(None)
    _pool = _Pool(count)


def over_rows(loop: Loop, rows: int, work_per_row: int, work_per_range: int = 0) -> None:
    """Call ``loop(start, stop)`` on ranges that together cover ``range(rows)``.

    `work_per_row` is the number of element operations of a row; it decides whether sharing the work pays.
    `work_per_range` is that of a call whatever its rows are; it decides into how many ranges a share may be cut.
    """
    pool, work = _the_pool(), rows * work_per_row
    is_shared = work >= _INLINE_BELOW and not _state.is_alone
    count = min(1 + pool.helpers(_state.job), rows) if is_shared else 1
    if count < 2:
        loop(0, rows)
    else:
        # Calls cost at most a sixteenth of the work of their rows, unless one range for each thread already does.
        ranges = min(rows, _RANGES * count, work // max(_RANGE, 16 * work_per_range))
        pool.run(loop, rows, count, max(count, ranges), _nothing)


def _the_pool() -> _Pool:
    """Return the pool; the first call starts its threads."""
    global _pool
    if _pool is None:
        _pool = _Pool(hardware.threads())
    return _pool


def _nothing() -> None:
    """Release no thread: in most loops none waits for another."""


def run_on_all_threads(task: Callable[[int, int], object], work: int, release: Release = _nothing) -> None:
    """Call ``task(number, count)`` in `count` threads at the same time, so that they may wait for each other.

    If `work`, in element operations, is too little to share, or this thread computes a share itself, the count is 1.
    Threads of two calls at once could wait for each other for ever, so one call waits until the other has ended.
    `release` is called if a task fails or does not begin, as after Ctrl-C: it must end all waiting.
    """
    stays = _state.job is not None or _state.is_alone
    count = 1 if stays or work < _INLINE_BELOW else _the_pool().count
    if count == 1:
        task(0, 1)
        return
    with _all_threads:
        _the_pool().run(lambda start, stop: task(start, count), count, count, count, release)


def run_tasks(task: Callable[[int], object], count: int) -> None:
    """Call ``task(0)`` to ``task(count - 1)``, shared among all threads.

    Loops inside a task stay in its thread, until other threads have no task left and help.
    """

    def tasks(start: int, stop: int) -> None:
        for number in range(start, stop):
            task(number)

    over_rows(tasks, count, _INLINE_BELOW)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Let the loops of this thread stay in it inside the block, because other processes use the other processors."""
    before, _state.is_alone = _state.is_alone, True
    try:
        yield
    finally:
        _state.is_alone = before


hardware.listeners.append(set_threads)
if hasattr(os, "register_at_fork"):  # threads do not survive a fork: the child starts its own
    os.register_at_fork(after_in_child=lambda: globals().update(_pool=None))
