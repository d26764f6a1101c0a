"""Ctrl-C, SIGTERM and a terminal that closes become a request to stop after the current step or token."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from minigrad.system.terminal import command

# Exit codes: 128 plus the number of the signal (SIGHUP, SIGINT, SIGTERM, SIGPIPE), as in shells.
HUNG_UP, INTERRUPTED, TERMINATED, BROKEN_PIPE = 129, 130, 143, 141
_HANG_UP: Any = getattr(signal, "SIGHUP", None)  # what a terminal sends when it closes; Windows lacks it
EXIT_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED} | ({_HANG_UP: HUNG_UP} if _HANG_UP else {})


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt in a program that set SIG_DFL for the time of its imports."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Stopped(Exception):  # noqa: N818  (nothing went wrong)
    """The run has stopped on request and saved a checkpoint; `code` is the exit code."""

    def __init__(self, code: int, step: int, folder: Path, launcher: str = "") -> None:
        again = launcher + command("train.py", "--resume", folder)
        super().__init__(f"stopped after step {step:,} and saved; continue with: {again}")
        self.code = code


class StopRequest:
    """A request to stop: `code` is the exit code, None without a request."""

    code: int | None = None


@contextlib.contextmanager
def stop_requests(numbers: Iterable[signal.Signals] = tuple(EXIT_CODES)) -> Iterator[StopRequest]:
    """Turn signals, by default Ctrl-C, SIGTERM and SIGHUP, into a request that a loop checks between its steps.

    A second Ctrl-C interrupts at once. SIGHUP may come twice, from a terminal and from its shell; if it is ignored, as
    by nohup, it stays so. Only the main thread catches signals; others never get a request.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    # A handler that was not installed from Python is None, and could not be restored.
    before = {number: found for number in numbers if (found := signal.getsignal(number)) is not None}
    if before.get(_HANG_UP) is signal.SIG_IGN:
        del before[_HANG_UP]

    def note(found: int, frame: FrameType | None) -> None:
        number = signal.Signals(found)
        request.code = EXIT_CODES[number]
        if number != _HANG_UP:
            signal.signal(number, before[number])

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
