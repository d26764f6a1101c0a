"""Printing. Every program prints through `say`, which replaces control characters: the name of a file, the answer of a
server or the text of a model could move the cursor of a terminal, hide lines or type.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


@contextlib.contextmanager
def phase(text: str, stream: TextIO | None = None) -> Iterator[None]:
    """Print `text` before the block and the duration after it."""
    stream = sys.stdout if stream is None else stream
    start = time.perf_counter()
    say(f"{text} ...", stream, end=" ")
    outcome = "stopped after "
    try:
        yield
        outcome = ""
    finally:
        say(f"{outcome}{time.perf_counter() - start:.1f} s", stream)


def say(text: object = "", stream: TextIO | None = None, *, end: str = "\n") -> None:
    """Print a text (`printable`) at once, on standard output or another stream."""
    print(printable(str(text)), file=sys.stdout if stream is None else stream, end=end, flush=True)


def printable(text: str) -> str:
    """Return `text` with every control character but tab and line break replaced by U+FFFD."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", text)


def to_standard_error(message: object) -> None:
    """Print a message on standard error if possible: on a full disk only the exit code tells of an error."""
    with contextlib.suppress(OSError):
        say(message, sys.stderr)


def fold_blank_lines(text: str) -> str:
    """Return `text` with each run of blank lines as one line with their number.

    A model that has seen little text writes mostly line breaks.

    >>> print(fold_blank_lines("one\\n\\n\\n\\ntwo\\n\\nthree"))
    one
    [3 blank lines]
    two
    <BLANKLINE>
    three
    """
    lines = text.removesuffix("\n").split("\n")
    runs = ((blank, list(run)) for blank, run in itertools.groupby(lines, lambda line: not line.strip()))
    folded = ([f"[{len(run)} blank lines]"] if blank and len(run) > 1 else run for blank, run in runs)
    return "\n".join(itertools.chain(*folded))


def prepare_output() -> None:
    """Let standard output and standard error take every text; each program calls this first.

    A character that the encoding lacks is replaced. A stream that was closed before the program began (`train.py >&-`)
    discards what is printed. Otherwise the next open file would get its number, and receive errors that a library
    prints.
    """
    for name, number, errors in (("stdout", 1, "replace"), ("stderr", 2, "backslashreplace")):
        if getattr(sys, name) is None:
            setattr(sys, name, _nowhere(number))
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _nowhere(number: int) -> TextIO:
    """Return a stream that discards everything, under the number of a closed file; an open file keeps its number."""
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  (no path on every system; stays open)
    try:
        os.fstat(number)
    except OSError:
        os.dup2(nowhere.fileno(), number)
    return nowhere


def close_output(stream: TextIO | None = None) -> None:
    """Discard the buffered text of a stream, by default of standard output.

    Python would try to write it at exit; if it cannot, as to a closed pipe, it reports that, and exits with 120.
    """
    with open(os.devnull, "wb") as nowhere, contextlib.suppress(OSError, ValueError):  # noqa: PTH123  (no path on every system)
        os.dup2(nowhere.fileno(), (sys.stdout if stream is None else stream).fileno())


def flush_output() -> None:
    """Write buffered output and messages at the end of a program, or discard them if that fails, as on a full disk."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            close_output(stream)


def quoted(word: object) -> str:
    """Return a word of a command as it is typed in a shell; cmd of Windows needs double quotes."""
    if isinstance(word, Path) and str(word).startswith("-"):  # or it would be taken for a flag
        word = f"./{word}"
    return subprocess.list2cmdline([str(word)]) if os.name == "nt" else shlex.quote(str(word))


def command(program: str, *words: object) -> str:
    """Return the command that runs `program`, a file beside the running one, to paste into the same shell."""
    running = Path(sys.argv[0])
    path = running.with_name(program) if running.suffix == ".py" and running.with_name(program).is_file() else program
    return " ".join(map(quoted, (_interpreter(), path, *words)))


def installation(extra: str = "") -> str:
    """Return the command that installs minigrad and what it needs; `extra` is one of pyproject.toml, as "[serve]"."""
    folder = f"{Path(__file__).parents[2]}{extra}"
    return " ".join(map(quoted, (sys.executable, "-m", "pip", "install", "-e", folder)))


def _interpreter() -> str:
    """Return the running Python as it is typed: its name if the shell finds it, else its shortest path."""
    path = sys.executable
    for name in ("python", "python3"):
        found = shutil.which(name)
        if not path or (found and os.path.normcase(os.path.abspath(found)) == os.path.normcase(path)):  # noqa: PTH100
            return name
    here = Path.cwd()
    # A virtual environment is often a folder in the current one; links are kept, as its Python links to another.
    short = Path(path).relative_to(here) if Path(path).is_relative_to(here) else Path(path)
    return str(short.with_suffix("") if short.suffix.lower() == ".exe" else short)


def in_lines(name: str, value: str) -> str:
    """Return a row, a name and a value, wrapped to 79 columns with the value in a column of its own.

    >>> print(in_lines("count  ", "1 2 " * 20))
    count  1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2
           1 2 1 2
    """
    return textwrap.fill(
        value, 79, initial_indent=name, subsequent_indent=" " * len(name), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip
