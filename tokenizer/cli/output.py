"""What the commands print: every text as it may be shown in a terminal, and nothing where the output was closed.

minigrad has functions of its own for that; this package can be used without minigrad.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a text, with U+FFFD for every control character but tab and line break.

    The name of a file or of a token could otherwise move the cursor of the terminal, or hide lines.
    """
    shown = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", text)
    print(shown, file=sys.stdout if stream is None else stream)


def complain(message: str) -> None:
    """Print an error on standard error, if that takes one: on a full disk the exit code says it alone."""
    with contextlib.suppress(OSError):
        say(message, sys.stderr)


def prepare_output() -> None:
    """Let standard output and standard error take every text, as the program does first of all.

    A character that the encoding lacks is replaced. A stream that was closed before the program began (`>&-`) discards
    its output, and keeps its number, which the next file to be opened would otherwise get.
    """
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, _nowhere(number))
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")


def _nowhere(number: int) -> TextIO:
    """Return a stream that discards everything; it gets the number of a file, unless that belongs to one already."""
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  (no path on every system; stays open)
    try:
        os.fstat(number)
    except OSError:
        os.dup2(nowhere.fileno(), number)
    return nowhere


def discard_output() -> None:
    """Discard buffered output: at exit Python would report a full disk or a closed pipe as an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
