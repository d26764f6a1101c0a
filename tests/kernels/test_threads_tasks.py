"""Tasks side by side: each runs once, and a thread that has none left helps with the loops of the others."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from minigrad.kernels.threads import over_rows, run_tasks, set_threads
from minigrad.typing import Array

pytestmark = pytest.mark.usefixtures("_restore_pool")
LARGE = 10**9  # element operations per row: never too little to be shared


def test_tasks_run_once_each_and_loops_inside_them_stay_while_all_threads_have_tasks() -> None:
    set_threads(2)
    names: list[list[str]] = [[], []]
    met = threading.Barrier(2, timeout=60)  # no thread has ended its task before both have called their loops

    def task(number: int) -> None:
        names[number].append(threading.current_thread().name)
        over_rows(lambda start, stop: names[number].append(threading.current_thread().name), 100, LARGE)
        met.wait()

    run_tasks(task, 2)
    assert [len(set(each)) for each in names] == [1, 1]


@pytest.mark.parametrize("long_task", [0, 1])  # 0 is that of the caller, who later waits; 1 that of the pool
def test_a_thread_without_a_task_helps_with_the_loops_of_another(long_task: int) -> None:
    set_threads(2)
    visits, names = np.zeros(100, int), set[str]()
    has_ended = threading.Event()

    def visit(start: int, stop: int) -> None:
        names.add(threading.current_thread().name)
        visits[start:stop] += 1
        time.sleep(0.001)

    def task(number: int) -> None:
        if number != long_task:
            has_ended.set()
            return
        assert has_ended.wait(timeout=60)
        give_up = time.monotonic() + 60
        while len(names) < 2 and time.monotonic() < give_up:
            visits[:] = 0
            over_rows(visit, 100, LARGE)
            assert (visits == 1).all()

    run_tasks(task, 2)
    assert len(names) == 2


def test_an_error_in_a_helping_thread_reaches_the_task() -> None:
    set_threads(2)
    caught: list[str] = []

    def visit(start: int, stop: int) -> None:
        time.sleep(0.001)
        if start == 0:
            raise ZeroDivisionError(threading.current_thread().name)

    def task(number: int) -> None:
        for _ in range(20 * number):
            with pytest.raises(ZeroDivisionError) as error:
                over_rows(visit, 100, LARGE)
            caught.append(str(error.value))

    run_tasks(task, 2)
    assert len(caught) == 20


def test_loops_of_many_unequal_tasks_give_the_same_sums() -> None:
    lengths = [0, 40, 3, 1, 25, 0, 7]
    for count in (1, 2, 3, 4):
        set_threads(count)
        sums = np.zeros((len(lengths), 50), int)

        def task(number: int, sums: Array = sums) -> None:
            def add(start: int, stop: int) -> None:
                sums[number, start:stop] += 1

            for _ in range(lengths[number]):
                over_rows(add, 50, LARGE)

        for _ in range(10):
            run_tasks(task, len(lengths))
        assert (sums == 10 * np.array(lengths)[:, None]).all()


def test_an_error_in_a_task_is_raised_and_the_threads_keep_working() -> None:
    def task(number: int) -> None:
        raise KeyError(number)

    for _ in range(2):
        with pytest.raises(KeyError):
            run_tasks(task, 2)
    done: list[int] = []
    run_tasks(done.append, 5)
    assert sorted(done) == [0, 1, 2, 3, 4]
