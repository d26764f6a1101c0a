"""Matrix products from three plain loops to the fastest one, and that one at the models' shapes against NumPy's BLAS.

Measured in turns; medians. Run with nothing else on the machine:

    python benchmarks/matmul.py
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from minigrad.kernels import threads
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SPLIT
from minigrad.kernels.gemm import panels as matmul
from minigrad.system import hardware

BLOCKS = {"float32": FLOAT32, "bfloat16 parts": SPLIT, "bfloat16": BFLOAT16}
SHAPES = [
    # m, k, n, and whether the left factor is transposed (the gradient of a weight)
    (1_024, 576, 1_536, False),
    (1_024, 1_536, 576, False),
    (1_536, 1_024, 576, True),
    (1_024, 576, 576, False),
    (512, 576, 32_000, False),
    (32_000, 512, 576, True),
    (2_048, 96, 256, False),
    (256, 2_048, 96, True),
    (2_048, 288, 768, False),
    (256, 768, 2_304, False),
]


def rates(contestants: dict[str, Callable[[], Any]], operations: float, rounds: int) -> dict[str, float]:
    """Measure all in turns; return the median GFLOP/s of each."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: operations / statistics.median(taken) / 1e9 for name, taken in times.items()}


def factors(m: int, k: int, n: int, lying: bool) -> tuple[Any, Any, Any]:
    """Draw a left and a right factor as in training, and allocate the product."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((k, m) if lying else (m, k), dtype=np.float32)
    right = rng.standard_normal((k, n) if lying else (n, k), dtype=np.float32)
    return left.T if lying else left, right if lying else right.T, np.empty((m, n), np.float32)


def ladder(size: int = 768) -> dict[str, float]:
    """Measure every step on square matrices, the plain loops on one thread."""
    a, b, c = factors(size, size, size, lying=False)
    b = np.ascontiguousarray(b)
    rungs: dict[str, Callable[[], Any]] = {
        rung.__name__: lambda rung=rung: rung(a, b, c)
        for rung in (matmul.naive, matmul.loop_order, matmul.blocked, matmul.packed)
    }
    if FLOAT32 is not None:
        rungs["blocks in registers"] = lambda: matmul.multiply(a, b, c, FLOAT32)
    count = hardware.threads()
    hardware.prepare(1)
    found = rates(rungs | {"BLAS": lambda: np.matmul(a, b, out=c)}, 2 * size**3, rounds=5)
    hardware.prepare(count)
    both: dict[str, Callable[[], Any]] = {f"BLAS, {count} threads": lambda: np.matmul(a, b, out=c)}
    for name, block in BLOCKS.items():
        if block is not None:
            both[f"{name}, {count} threads"] = lambda block=block: matmul.multiply(a, b, c, block)
    return found | rates(both, 2 * size**3, rounds=9)


def main() -> None:
    """Print two tables and JSON."""
    threads.set_threads(hardware.threads())
    print(hardware.describe())
    found = ladder()
    for name, rate in found.items():
        print(f"{name:<22} {rate:8.1f} GFLOP/s")
    titles = "".join(f" {name:>13} {'of BLAS':>8}" for name in BLOCKS)
    print(f"\n{'shape':<24} {'BLAS':>7}{titles}")
    results = []
    for m, k, n, lying in SHAPES:
        a, b, c = factors(m, k, n, lying)
        contestants: dict[str, Callable[[], Any]] = {"BLAS": lambda a=a, b=b, c=c: np.matmul(a, b, out=c)}
        for name, block in BLOCKS.items():
            if block is not None:
                contestants[name] = lambda a=a, b=b, c=c, block=block: matmul.multiply(a, b, c, block)
        rate = rates(contestants, 2.0 * m * k * n, rounds=15)
        results.append({"shape": [m, k, n], "lying": lying, **rate})
        shape = f"{m}, {k}, {n}{' w' if lying else ''}"
        ours = [rate.get(name, np.nan) for name in BLOCKS]
        print(
            f"{shape:<24} {rate['BLAS']:7.0f}" + "".join(f" {each:13.0f} {each / rate['BLAS']:8.2f}" for each in ours)
        )
    print(json.dumps({"machine": hardware.describe(), "ladder": found, "shapes": results}))


if __name__ == "__main__":
    main()
