"""What the commands print: every text as it may be shown in a terminal, and nothing where the output was closed.

minigrad has functions of its own for that; this package can be used without minigrad.
"""

from __future__ import annotations

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
    """Print an error on standard error, if that takes one: on a full disk only the exit code reports the error."""
    try:
        say(message, sys.stderr)
        sys.stderr.flush()
    except OSError:
        discard_output(sys.stderr)


def prepare_output() -> None:
    """Let standard output and standard error take every text, as the program does first of all.

    A character that the encoding lacks is replaced. A stream that was closed before the program began (`>&-`) discards
    its output; the system opens it under the number that is free.
    """
    for name, errors in (("stdout", "replace"), ("stderr", "backslashreplace")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  (stays open)
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def discard_output(stream: TextIO | None = None) -> None:
    """Discard the buffered text of a stream, by default of standard output.

    At exit Python would report a full disk or a closed pipe as an error.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stdout if stream is None else stream).fileno())
