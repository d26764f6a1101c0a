"""The side of this process: a template is rendered by a process of its own, which is started when it is needed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

from tokenizer.errors import TokenizerError
from tokenizer.templates.program import Bounds

PROGRAM = Path(__file__).with_name("program.py")
BOUNDS = Bounds()


class Renderer:
    """A chat template in Jinja; `place` names it in errors, such as "the chat template in FILE".

    Raises TokenizerError for a template that cannot be read, and where jinja2 is not installed.
    """

    def __init__(self, source: str, place: str) -> None:
        self.source, self.place = source, place
        self._process: subprocess.Popen[bytes] | None = None
        if importlib.util.find_spec("jinja2") is None:
            raise TokenizerError(f"{place} is written in Jinja; install jinja2: {sys.executable} -m pip install jinja2")
        self._start()

    def render(self, **values: Any) -> str:
        """Return what the template writes; raises TokenizerError if it fails or exceeds the bounds."""
        if self._process is None:
            self._start()
        return self._ask(values, "refuses the messages")

    def _start(self) -> None:
        command = [sys.executable, "-P", str(PROGRAM), json.dumps(BOUNDS)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
        self._end = weakref.finalize(self, end, self._process)
        self._ask(self.source, "is damaged")

    def _ask(self, given: object, fault: str) -> str:
        """Return the answer of the process; one that gives none is ended, and the next question starts another."""
        process, line = self._process, b""
        assert process is not None and process.stdin is not None and process.stdout is not None  # noqa: PT018
        asked = time.monotonic()
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(given).encode() + b"\n")
                process.stdin.flush()
            line = process.stdout.readline()
        finally:  # also after Ctrl-C: its answer would be taken for that of the next question
            if not line:
                self._process = None
                self._end()
        # Not its exit code: faulthandler, which ends it, prints where it was first, and may crash over that.
        late = time.monotonic() - asked > BOUNDS.seconds
        broken = f"it takes more than {BOUNDS.seconds:g} seconds" if late else "its process broke down"
        answer = json.loads(line) if line else {"refused": broken}
        if "refused" in answer:
            raise TokenizerError(f"{self.place} {fault}: {answer['refused']}")
        return str(answer["text"])


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process of a template: it does so itself when its input ends, unless it is busy."""
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):  # bytes that were never written
            assert pipe is not None
            pipe.close()
    if process.poll() is None:
        process.kill()
    process.wait()
