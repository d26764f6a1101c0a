"""The prompt of generate.py: from its flag, or from standard input."""

from __future__ import annotations

import os
import stat
import sys

from minigrad.errors import InputError

STANDARD_INPUT = "-"

_END = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"


def read_prompt(given: str | None) -> str:
    """Return the prompt: `given`, or the text of standard input where it is "-".

    None is no prompt, unless another program or a file is standard input, as in `echo Once | generate.py RUN`. Raises
    InputError if standard input is closed, or is no UTF-8 text.
    """
    if given is None:
        return _read_standard_input() if _is_piped() else ""
    return _read_standard_input() if given == STANDARD_INPUT else given


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file, and not a terminal, a null device, or nothing."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or replaced by an object that is no file
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _read_standard_input() -> str:
    """Return the text of standard input without its last line break, which `echo` and editors add."""
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("there is no standard input to read the prompt from")
    if sys.stdin.isatty():
        print(f"[type the prompt, then end it with {_END} on a line of its own]", file=sys.stderr, flush=True)
    data = sys.stdin.buffer.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input is not UTF-8 text: its byte {error.start + 1:,} is 0x{data[error.start]:02x}"
        ) from None
    return text.replace("\r\n", "\n").removesuffix("\n")
