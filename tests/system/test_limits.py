"""Limits of a process that are too low are told in one sentence, before anything fails."""

from __future__ import annotations

import threading

import pytest

from minigrad.errors import RunError
from minigrad.system import limits


def test_a_process_without_limits_may_run():
    limits.check_limits(2)


def test_too_little_memory_is_told(monkeypatch):
    monkeypatch.setattr(limits, "_address_space", lambda: 409_600_000)
    with pytest.raises(RunError, match=r"may use 409\.6 MB of addresses \(ulimit -v\), and needs 600\.0 MB.*unlimited"):
        limits.check_limits(1)


def test_too_few_threads_are_told(monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RunError, match=r"cannot start the 4 threads that it needs \(ulimit -u\)"):
        limits.check_limits(2)


@pytest.mark.skipif(limits.sys.platform == "win32", reason="Windows has no such limit")
def test_the_limit_is_that_of_the_process(monkeypatch):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda which: (5, 5) if which == resource.RLIMIT_AS else (1, 1))
    assert limits._address_space() == 5
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, -1))
    assert limits._address_space() == -1
