"""Work measured in turns, so that a slow moment of the machine affects all alike: in this process, or in others.

A contestant is a process of its own. It does a piece of work for each line on its standard input and sleeps meanwhile.
A script starts itself as a contestant with `--serve`, possibly by another interpreter that has a peer's packages.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

Name = TypeVar("Name", bound=Hashable)

_REST = 0.3  # seconds between turns: the threads of the previous contestant may still spin


def medians(works: Mapping[Name, Callable[[], object]], rounds: int) -> dict[Name, float]:
    """Return the median seconds of each work, all in this process, after a first turn to warm up.

    Who begins changes from turn to turn.
    """
    seconds: dict[Name, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in list(works.items())[:: 1 if turn % 2 else -1]:
            start = time.perf_counter()
            work()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


class Contestant:
    """A process that runs `script` with `--serve`."""

    def __init__(self, script: str, python: str, options: dict[str, Any]) -> None:
        self.started = time.perf_counter()
        command = [python, script, "--serve", json.dumps(options)]
        # minigrad wrote the variable for this process; NumPy without minigrad is to use all threads.
        environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.seconds: dict[str, list[float]] = {}
        self.peak = 0
        self.first_answer = 0.0  # seconds from the start of the process

    def turn(self, work: str = "step", times: int = 1, *, warm_up: bool = True) -> None:
        """Do a piece of work once to warm up, then `times` times in a row, and store the seconds of each."""
        time.sleep(_REST)
        if warm_up:
            self._do(work)
        self.seconds.setdefault(work, []).extend(self._do(work) for _ in range(times))

    def _do(self, work: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{work}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a contestant ended early; see its message above")
        answered = json.loads(line)
        self.first_answer = self.first_answer or time.perf_counter() - self.started
        self.peak = answered["peak_bytes"]
        return float(answered["seconds"])

    def median(self, work: str = "step") -> float:
        """Return the median seconds of a piece of work."""
        return statistics.median(self.seconds[work])

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(work: dict[str, Callable[[], object]], more_bytes: Callable[[], int] = lambda: 0) -> None:
    """Do the piece of work that each line on standard input names; answer with its seconds and the peak memory.

    `more_bytes` returns the memory of other processes that do a part of it.

    A piece that times only a part of itself returns the seconds of that part.
    """
    for line in sys.stdin:
        piece = work[line.strip()]
        start = time.perf_counter()
        own = piece()
        taken = own if isinstance(own, float) else time.perf_counter() - start
        print(json.dumps({"seconds": taken, "peak_bytes": peak_bytes() + more_bytes()}), flush=True)


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def has(python: str, *modules: str) -> bool:
    """Return whether there is such an interpreter and it can import all `modules`."""
    try:
        done = subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True, check=False)
    except OSError:  # no such program
        return False
    return done.returncode == 0
