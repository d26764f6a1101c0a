"""The speed-up of the small kernels by a second thread, under the conditions of a training step.

Before each call a matrix product runs, as in a step: the pool's thread is then asleep, and the caches hold other data.
The work grows from line to line. More threads must never be slower than one: work that is too small must stay on the
calling thread.

    python benchmarks/threads.py
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from machine import describe_machine

from minigrad.system import hardware  # isort: skip  (before NumPy: it tells BLAS to use one thread)

import numpy as np

from minigrad.kernels import threads
from minigrad.kernels.rowwise import gating, norm

ROWS = (64, 256, 1_024, 2_048, 4_096, 16_384)
WIDTH, HIDDEN = 96, 256
TURNS = 60


def seconds(call: Callable[[], object], before: Callable[[], object]) -> dict[int, float]:
    """Return the median time of a call on one thread and on all threads, in turns."""
    times: dict[int, list[float]] = {1: [], hardware.threads(): []}
    for _ in range(TURNS):
        for count, found in times.items():
            threads.set_threads(count)
            threads.over_rows(lambda start, stop: None, count, 10**9)  # start the new threads
            before()
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
    return {count: statistics.median(found) for count, found in times.items()}


def main() -> None:
    """Print a table, then the same as JSON."""
    if hardware.threads() < 2:
        sys.exit("there is one thread only, so there is nothing to compare")
    rng = np.random.default_rng(0)
    a = rng.random((1_024, 512), np.float32)
    results: list[dict[str, Any]] = []
    print(describe_machine())
    print(f"{'kernel':<18} {'rows':>7} {'1 thread, us':>13} {'all, us':>9} {'gain':>6}")
    for rows in ROWS:
        x, weight = rng.random((rows, WIDTH), np.float32), rng.random(WIDTH, np.float32)
        gate = rng.random((rows, HIDDEN), np.float32)
        calls: dict[str, Callable[[], object]] = {
            "rms_norm forward": lambda x=x, weight=weight: norm.rms_norm_forward(x, weight, 1e-5),
            "swiglu forward": lambda gate=gate: gating.swiglu_forward(gate, gate),
        }
        for name, call in calls.items():
            one, every = seconds(call, lambda: a @ a.T).values()
            results.append({"kernel": name, "rows": rows, "one": one, "all": every})
            print(f"{name:<18} {rows:>7,} {1e6 * one:13.0f} {1e6 * every:9.0f} {one / every:5.2f}x", flush=True)
    print(json.dumps({"machine": describe_machine(), "results": results}))


if __name__ == "__main__":
    main()
