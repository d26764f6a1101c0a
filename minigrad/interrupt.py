"""Stop when asked, but not in the middle of a step; and stop quietly when nobody reads on."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""128 plus the number of the signal, as shells have it."""

BROKEN_PIPE = 141
"""The exit code when the reader of the output has gone, as in `train.py | head`: 128 plus SIGPIPE."""


class StopRequest:
    """Remembers that somebody asked the program to stop; `code` is then the exit code that says so."""

    code: int | None = None


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Turn Ctrl-C and SIGTERM into a request that the loop looks at between steps.

    A second Ctrl-C interrupts at once, as usual. Outside the main thread signals cannot be caught; then the request
    never comes.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in EXIT_CODES}

    def ask(number: int, frame: FrameType | None) -> None:
        request.code = EXIT_CODES[signal.Signals(number)]
        signal.signal(number, before[signal.Signals(number)])

    for number in EXIT_CODES:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def close_output() -> None:
    """Let everything still to be printed vanish: Python would complain about the reader who has gone at exit too."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  (the null device is no path on every system)
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def forgive_encoding() -> None:
    """Print a mark for each letter that the output's encoding does not know, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
