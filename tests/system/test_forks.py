"""Copies of this process answer questions, share memory, and end with it."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minigrad.errors import InputError, RunError
from minigrad.kernels import threads
from minigrad.system import forks, hardware
from minigrad.system.forks import Fork

if not forks.ARE_POSSIBLE:
    pytest.skip("this system cannot copy a process", allow_module_level=True)


@contextlib.contextmanager
def fork(answer: Callable[[Any], Any]) -> Iterator[Fork]:
    """Yield a copy of this process, and end it."""
    copy = Fork(answer)
    yield copy
    copy._end()


def said(copy: Fork, question: object) -> Any:
    """Return the answer to a question."""
    copy.ask(question)
    return copy.answer()


def test_a_copy_answers_in_a_process_of_its_own_with_what_its_parent_knew() -> None:
    known = {"two": 2}
    with fork(lambda word: (known.get(word), os.getpid())) as copy:
        known["three"] = 3  # after the copy was made
        assert [said(copy, word)[0] for word in ("two", "three")] == [2, None]
        assert said(copy, "two")[1] != os.getpid()


def test_copies_compute_at_the_same_time() -> None:
    def meet(pair: tuple[int, int]) -> float:
        mine, others = pair
        met[mine] = 1
        end = time.monotonic() + 30
        while not met[others] and time.monotonic() < end:
            time.sleep(0.001)
        return float(met[others])

    met = np.frombuffer(mmap.mmap(-1, 8), np.float32)
    with fork(meet) as one, fork(meet) as other:
        one.ask((0, 1))
        other.ask((1, 0))
        assert [one.answer(), other.answer()] == [1, 1]


def test_memory_is_the_parents_until_one_of_them_writes() -> None:
    def add(number: float) -> list[float]:
        own[:] += number
        return own.tolist()

    own = np.zeros(3)
    with fork(add) as copy:
        own[:] += 1
        assert said(copy, 5) == [5, 5, 5]
        assert own.tolist() == [1, 1, 1]


def test_a_copy_computes_in_one_thread() -> None:
    def used(rows: int) -> tuple[int, int, int]:
        seen = set[int]()
        threads.over_rows(lambda start, stop: seen.add(threading.get_ident()), rows, 10**9)
        return hardware.threads(), len(seen), threading.active_count()

    before = hardware.threads()
    threads.set_threads(2)
    threads.over_rows(lambda start, stop: None, 8, 10**9)
    with fork(used) as copy:
        assert said(copy, 64) == (1, 1, 1)
    threads.set_threads(before)
    assert hardware.threads() == before


def test_an_error_of_a_copy_is_raised_here_and_the_copy_goes_on() -> None:
    with fork(lambda number: 1 / number) as copy:
        with pytest.raises(ZeroDivisionError):
            said(copy, 0)
        assert said(copy, 2) == 0.5

    def refuse(word: str) -> None:
        raise InputError(f"not {word}")

    with fork(refuse) as copy, pytest.raises(InputError, match="not this"):
        said(copy, "this")


@pytest.mark.parametrize("asked_before", [True, False])
def test_a_copy_that_was_killed_is_named_with_the_way_out(asked_before: bool) -> None:
    copy = Fork(lambda number: time.sleep(number))
    if asked_before:
        copy.ask(60)
    os.kill(copy._number, signal.SIGKILL)
    if not asked_before:
        time.sleep(0.05)
        copy.ask(60)
    with pytest.raises(RunError, match=r"has ended \(signal 9\)\. --resume continues .* --threads 1"):
        copy.answer()


def test_an_answer_that_cannot_be_sent_is_an_error_and_an_error_that_cannot_be_sent_ends_the_copy(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def answer(word: str) -> Any:
        if word == "an error":
            raise ValueError(threading.Lock())
        return threading.Lock() if word == "a lock" else word

    copy = Fork(answer)
    with pytest.raises(TypeError, match="cannot pickle"):
        said(copy, "a lock")
    assert said(copy, "a word") == "a word"
    with pytest.raises(RunError, match="exit code 1"):
        said(copy, "an error")
    assert "cannot pickle" in capfd.readouterr().err


def test_a_system_that_refuses_a_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(
        RunError, match=r"refuses a copy of this process \(.*unavailable.*\); a run with --threads 1 needs none"
    ):
        Fork(str)


def test_signals_that_go_to_all_processes_are_left_to_the_first() -> None:
    with fork(lambda number: number + 1) as copy:
        said(copy, 0)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.kill(copy._number, number)
        assert said(copy, 1) == 2


def test_a_copy_ends_with_the_object_that_stands_for_it() -> None:
    copy = Fork(lambda number: number)
    number = copy._number
    assert said(copy, 3) == 3
    del copy
    assert not _lives(number)


PARENT = """
import sys, time
from minigrad.system.forks import Fork
copies = [Fork(lambda seconds: time.sleep(seconds)) for _ in range(2)]
for copy in copies:
    copy.ask(0)
    copy.answer()
print(*(copy._number for copy in copies), flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "1 / 0", "time.sleep(60)", "copies[0].ask(0.5); time.sleep(60)"])
def test_copies_end_with_the_process_whatever_ends_it(end: str) -> None:
    program = [sys.executable, "-c", PARENT.format(end=end)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        numbers = [int(number) for number in parent.stdout.readline().split()]
        assert len(numbers) == 2
        if "sleep" in end:
            parent.kill()
        parent.wait(30)
    gone = time.monotonic() + 30
    while any(_lives(number) for number in numbers):
        assert time.monotonic() < gone, "a copy outlived its parent"
        time.sleep(0.01)


def _lives(process: int) -> bool:
    """Whether a process has not ended; one that has ended, and that nobody has waited for, has no memory."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/statm").read_text(encoding="utf-8") != "0 0 0 0 0 0 0\n"
    return False


def test_the_memory_of_copies_is_what_they_have_beside_this_process() -> None:
    kept: list[Any] = []

    def grow(size: int) -> None:
        kept.append(np.ones(size))

    with fork(grow) as copy:
        said(copy, 1)
        before = copy.memory_bytes()
        said(copy, 4_000_000)
        assert copy.memory_bytes() - before == pytest.approx(32e6, rel=0.1)
        assert forks.memory_bytes_of_all() > 32e6  # of this one and of any others
    assert copy.memory_bytes() == 0  # it has ended
