"""Stop when asked, but not in the middle of a step."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""128 plus the number of the signal, as shells have it."""


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
