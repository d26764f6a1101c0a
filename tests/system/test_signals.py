"""The first signal becomes a request; the second one, and those after the block, are handled as usual."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from minigrad.system.signals import EXIT_CODES, raise_on_interrupt, stop_requests
from minigrad.system.terminal import prepare_output

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def signals_are_handled_as_on_a_terminal():
    """A shell starts background jobs with SIGINT ignored, and nohup ignores SIGHUP."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in EXIT_CODES}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), [(each, 128 + each) for each in EXIT_CODES])
def test_a_signal_becomes_a_request_and_the_work_continues(number, code):
    with stop_requests() as request:
        assert request.code is None
        signal.raise_signal(number)
        assert request.code == code


def test_the_earlier_handlers_are_restored_also_after_an_error():
    before = {number: signal.getsignal(number) for number in EXIT_CODES}

    def fail() -> None:
        with stop_requests():
            assert signal.getsignal(signal.SIGINT) != before[signal.SIGINT]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert {number: signal.getsignal(number) for number in EXIT_CODES} == before


def test_a_handler_that_python_does_not_know_stays(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with stop_requests() as request:
            signal.raise_signal(signal.SIGTERM)
        assert request.code is None
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_interrupt_does_not_wait():
    with stop_requests() as request:
        signal.raise_signal(signal.SIGINT)
        assert request.code == 130
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGHUP")
def test_a_terminal_that_closes_sends_twice_what_nohup_ignores():
    with stop_requests() as request:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert request.code == 129
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_requests() as request:
        signal.raise_signal(signal.SIGHUP)
        assert request.code is None
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_gets_a_request_that_never_comes():
    found: list[int | None] = []

    def work() -> None:
        with stop_requests() as request:
            found.append(request.code)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [None]


PROGRAMS = [
    *("train.py", "generate.py"),
    *(f"minigrad/{name}/__main__.py" for name in ("evaluate", "serving", "training/report")),
    *(f"minigrad/formats/{name}/__main__.py" for name in ("gguf", "transformers")),
]


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_an_interrupt_raises_again_after_the_imports_unless_it_is_ignored(before):
    signal.signal(signal.SIGINT, before)
    raise_on_interrupt()
    expected = signal.default_int_handler if before == signal.SIG_DFL else signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) == expected


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_interrupt_during_the_imports_ends_without_a_traceback(program, tmp_path):
    """The first import after the standard library's waits until the interrupt has arrived."""
    (tmp_path / "minigrad").mkdir()
    (tmp_path / "minigrad" / "__init__.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n", encoding="utf-8"
    )
    shutil.copy(ROOT / program, tmp_path / "program.py")
    handle = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start = f"{handle}import runpy; sys.path.insert(0, '.'); runpy.run_path('program.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_a_character_that_the_output_cannot_encode_is_replaced(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    prepare_output()
    print("naïve 🙂", flush=True)
    assert raw.getvalue() == b"na?ve ?\n"
