"""Printing: phases with their duration, text as it is shown, commands to paste, and output that was closed."""

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
    print(f"{text} ...", end=" ", file=stream, flush=True)
    outcome = "stopped after "
    try:
        yield
        outcome = ""
    finally:
        print(f"{outcome}{time.perf_counter() - start:.1f} s", file=stream, flush=True)


def printable(text: str) -> str:
    """Return `text` with every control character but tab and line break replaced by U+FFFD.

    >>> printable("bell\\x07 and\\ttab")
    'bell\ufffd and\\ttab'
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", text)


def fold_blank_lines(text: str) -> str:
    """Return `text` with each run of blank lines as one line with their number.

    A model that has seen little text writes line breaks first of all, and its samples would be mostly empty.

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


def forgive_encoding() -> None:
    """Print a replacement for each character that the output's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")


def close_output() -> None:
    """Discard everything still to be printed: at exit Python would report the closed output as an error."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  (the null device is no path on every system)
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def quoted(word: str) -> str:
    """Return a word of a command as it is typed in a shell: on Windows in double quotes, which cmd understands.

    >>> print("ls", quoted("file"))
    ls file
    """
    return subprocess.list2cmdline([word]) if os.name == "nt" else shlex.quote(word)


def command(program: str, *words: object) -> str:
    """Return the command that runs `program`, a file beside the running one, with the Python that is running.

    It can be pasted into the shell from which this process was started.
    """
    running = Path(sys.argv[0])
    path = running.with_name(program) if running.suffix == ".py" and running.with_name(program).is_file() else program
    return " ".join(quoted(str(word)) for word in (_interpreter(), path, *words))


def _interpreter() -> str:
    """Return the running Python as it is typed: by its name if the shell finds it, or by its shortest path."""
    path = sys.executable
    for name in ("python", "python3"):
        found = shutil.which(name)
        if not path or (found and os.path.normcase(os.path.abspath(found)) == os.path.normcase(path)):  # noqa: PTH100
            return name
    here = Path.cwd()
    # A virtual environment is often a folder in the current one; its Python must not be resolved to the one it links.
    short = Path(path).relative_to(here) if Path(path).is_relative_to(here) else Path(path)
    return str(short.with_suffix("") if short.suffix.lower() == ".exe" else short)


def in_lines(name: str, value: str) -> str:
    """Return the name and the value of a row in lines that a terminal of 80 columns holds; the value is one column.

    >>> print(in_lines("count  ", "1 2 " * 20))
    count  1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2
           1 2 1 2
    """
    return textwrap.fill(
        value, 79, initial_indent=name, subsequent_indent=" " * len(name), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip
