"""The pool: every row once, errors reach the caller, and the same bits whatever the number of threads."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import ops
from minigrad.kernels import threads
from minigrad.kernels.rowwise import updates
from minigrad.kernels.threads import over_rows, set_threads
from tests import op_checks
from tests.op_table import TABLE, Array, Case, operation

pytestmark = pytest.mark.usefixtures("_restore_pool")
LARGE = 10**9  # element operations per row: never too little to be shared


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_row_is_visited_once(count: int) -> None:
    set_threads(count)
    for rows in (0, 1, 2, 3, 7, 100):
        visits = np.zeros(rows, int)

        def visit(start: int, stop: int, visits: Array = visits) -> None:
            visits[start:stop] += 1

        over_rows(visit, rows, LARGE)
        assert (visits == 1).all()


def test_alone_a_thread_shares_nothing() -> None:
    set_threads(2)
    seen: list[tuple[int, int]] = []
    with threads.alone():
        over_rows(lambda start, stop: seen.append((start, stop)), 100, LARGE)
        threads.run_on_all_threads(lambda number, count: seen.append((number, count)), LARGE)
    assert seen == [(0, 100), (0, 1)]
    over_rows(lambda start, stop: seen.append((start, stop)), 100, LARGE)
    assert len(seen) > 3


def test_threads_that_wait_for_one_that_is_interrupted_before_it_begins_are_released(monkeypatch):
    set_threads(2)
    waits, released, compute = threading.Event(), threading.Event(), threads._Job.compute

    def task(number: int, count: int) -> None:
        if number == 1:
            waits.set()
            assert released.wait(60)

    def interrupted(job: Any, share: int) -> None:
        if share == 0:
            assert waits.wait(60)
            raise KeyboardInterrupt
        compute(job, share)

    monkeypatch.setattr(threads._Job, "compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        threads.run_on_all_threads(task, LARGE, released.set)


def test_work_is_shared_when_there_is_much_and_stays_when_there_is_little() -> None:
    set_threads(2)
    names: list[str] = []
    met = threading.Barrier(2, timeout=60)  # passes only if two threads are inside at once

    def meet(start: int, stop: int) -> None:
        names.append(threading.current_thread().name)
        met.wait()

    over_rows(meet, 2, LARGE)
    assert len(set(names)) == 2
    names.clear()
    over_rows(lambda start, stop: names.append(threading.current_thread().name), 2, 1)
    assert names == [threading.current_thread().name]


def test_a_fast_thread_takes_the_work_of_a_slow_one() -> None:
    set_threads(2)
    visits, caller = np.zeros(100, int), threading.current_thread()
    slow_has_begun, rest_is_done = threading.Event(), threading.Event()
    slow: list[int] = []

    def visit(start: int, stop: int) -> None:
        if threading.current_thread() is caller:
            assert slow_has_begun.wait(timeout=60)
            visits[start:stop] += 1
            if visits.sum() == 100 - slow[0]:
                rest_is_done.set()
        else:
            slow.append(stop - start)
            slow_has_begun.set()
            assert rest_is_done.wait(timeout=20)
            visits[start:stop] += 1

    over_rows(visit, 100, LARGE)
    assert (visits == 1).all()
    assert len(slow) == 1
    assert slow[0] <= 13  # of 100 rows in 8 ranges


def test_a_caller_does_not_wait_for_threads_that_have_not_begun() -> None:
    set_threads(2)
    is_busy, may_end, visits = threading.Event(), threading.Event(), np.zeros(100, int)

    def keep_busy(start: int, stop: int) -> None:
        if threading.current_thread().name == "minigrad-0":
            is_busy.set()
            assert may_end.wait(timeout=60)
        else:
            assert is_busy.wait(timeout=60)

    other = threading.Thread(target=lambda: over_rows(keep_busy, 2, LARGE), daemon=True)
    other.start()
    assert is_busy.wait(timeout=60)

    def visit(start: int, stop: int) -> None:
        visits[start:stop] += 1

    caller = threading.Thread(target=lambda: over_rows(visit, 100, LARGE), daemon=True)
    caller.start()
    caller.join(timeout=20)
    is_done = not caller.is_alive()
    may_end.set()
    other.join(timeout=60)
    caller.join(timeout=60)
    assert is_done
    assert (visits == 1).all()


@pytest.mark.parametrize(
    ("rows", "work_per_row", "work_per_range", "calls"),
    [
        (1_000, 3_000, 0, 1),  # too little to be shared
        (1_000, 5_000, 0, 2),
        (1_000, 12_000, 0, 6),
        (1_000, 10**6, 0, 8),
        (5, 10**9, 0, 5),
        (1_000, 10**6, 10**7, 6),  # ranges cost a sixteenth of their rows
        (1_000, 10**6, 10**9, 2),
    ],
)
def test_shares_are_cut_into_ranges_whose_calls_cost_little(
    rows: int, work_per_row: int, work_per_range: int, calls: int
) -> None:
    set_threads(2)
    spans: list[tuple[int, int]] = []
    over_rows(lambda start, stop: spans.append((start, stop)), rows, work_per_row, work_per_range)
    assert len(spans) == calls
    lengths = [stop - start for start, stop in spans]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("bad_row", [0, 50, 99])
def test_an_error_reaches_the_caller_and_the_pool_goes_on(bad_row: int) -> None:
    set_threads(3)

    def fail(start: int, stop: int) -> None:
        if start <= bad_row < stop:
            raise ZeroDivisionError(f"row {bad_row}")

    for _ in range(5):  # more often than there are threads: none of them may have died
        with pytest.raises(ZeroDivisionError, match=f"row {bad_row}"):
            over_rows(fail, 100, LARGE)
    visits = np.zeros(100, int)
    over_rows(lambda start, stop: np.add.at(visits, np.arange(start, stop), 1), 100, LARGE)
    assert (visits == 1).all()


@pytest.mark.usefixtures("shared_loops")
def test_an_interrupted_caller_waits_until_the_others_write_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does next may use the same arrays."""
    begun, ended = threading.Event(), threading.Event()

    class Interrupted(queue.SimpleQueue[Any]):
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            if ended.is_set():
                return super().get(block, timeout)
            ended.wait(0.01)
            raise KeyboardInterrupt

    class Job(threads._Job):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.inbox = Interrupted()

    def loop(start: int, stop: int) -> None:
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(10)
            return
        begun.set()
        time.sleep(0.1)
        ended.set()

    monkeypatch.setattr(threads, "_Job", Job)
    set_threads(2)
    with pytest.raises(KeyboardInterrupt):
        over_rows(loop, 2, LARGE)
    assert ended.is_set()


def test_many_python_threads_share_one_pool() -> None:
    set_threads(2)
    x = np.random.default_rng(0).normal(size=(300, 300))
    expected, *_ = op_checks.run(ops.softmax, Case((x,)))
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            result, *_ = op_checks.run(ops.softmax, Case((x,)))
            if result.tobytes() != expected.tobytes():
                wrong.append(number)

    callers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=120)
    assert not any(caller.is_alive() for caller in callers), "the pool is stuck"
    assert not wrong


def test_threads_of_an_old_pool_end() -> None:
    set_threads(4)
    pool_threads = [t for t in threading.enumerate() if t.name.startswith("minigrad-")]
    set_threads(1)
    for thread in pool_threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in pool_threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_pool_is_built_again_after_a_fork() -> None:
    # In a process of its own: forking beside running threads is what Python 3.12 and later warn about.
    program = """
import os, numpy as np
from minigrad.kernels import threads
threads.set_threads(2)
def total():
    visits = np.zeros(100)
    threads.over_rows(lambda start, stop: np.add.at(visits, np.arange(start, stop), 1), 100, 10**9)
    return int(visits.sum())
assert total() == 100
child = os.fork()
if child == 0:
    os._exit(total())
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 100
assert total() == 100
"""
    environment = os.environ | {"MINIGRAD_THREADS": "2"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def bits(name: str, case: Case) -> list[bytes]:
    result, gradients = op_checks.run(operation(name), case)
    return [result.tobytes(), *(g.tobytes() for g in gradients if g is not None)]


@pytest.mark.parametrize("name", TABLE)
@settings(max_examples=8)
@given(data=st.data())
def test_same_bits_with_any_number_of_threads(name: str, data: st.DataObject) -> None:
    case = data.draw(TABLE[name].cases)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "_INLINE_BELOW", 0)
        patch.setattr(threads, "_RANGE", 1)
        seen = []
        for count in (1, 2, 3):
            set_threads(count)
            seen.append(bits(name, case))
    assert seen[0] == seen[1] == seen[2]


def _large_cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(500, 40)).astype(np.float32), rng.normal(size=40).astype(np.float32)
    q, k = (rng.normal(size=(500, n, 8)).astype(np.float32) for n in (4, 2))
    return {
        "attention": Case((q, k, k + 1), {"offsets": np.array([0, 200, 200, 500])}),
        "embedding": Case((x[:50], rng.integers(0, 50, 3000))),
        "layer_norm": Case((x, w, w)),
        "rms_norm": Case((x, w)),
    }


@pytest.mark.parametrize("name", _large_cases())
def test_same_bits_where_rows_are_added_up(name: str, shared_loops: list[int]) -> None:
    seen = []
    for count in (1, 2, 3):
        set_threads(count)
        seen.append(bits(name, _large_cases()[name]))
    assert seen[0] == seen[1] == seen[2]
    assert {2, 3} <= set(shared_loops)


def test_same_norm_with_any_number_of_threads(shared_loops: list[int]) -> None:
    x = np.random.default_rng(0).normal(size=200_003).astype(np.float32)
    norms = set()
    for count in (1, 2, 3):
        set_threads(count)
        norms.add(updates.sum_of_squares(x))
    assert len(norms) == 1
    assert norms.pop() == pytest.approx(float((x.astype(np.float64) ** 2).sum()), rel=1e-5)
    assert {2, 3} <= set(shared_loops)
