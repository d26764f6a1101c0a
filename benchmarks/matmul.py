"""The ladder of matrix products, rung by rung, and the last one at the models' shapes, against NumPy's BLAS.

Everything is interleaved, medians are printed. Run with nothing else on the machine:

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
from minigrad.kernels.gemm.backend import product_into, use
from minigrad.kernels.gemm.ladder import blocked, loop_order, naive, packed
from minigrad.kernels.gemm.panels import multiply
from minigrad.system import hardware

BLOCKS = {"float32": FLOAT32, "three parts": SPLIT, "bfloat16": BFLOAT16}
SHAPES = [
    # rows, sum, columns, and whether the left factor is transposed (the gradient of a weight)
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
    """Let all take turns; return the median GFLOP/s of each."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: operations / statistics.median(taken) / 1e9 for name, taken in times.items()}


def factors(m: int, k: int, n: int, transposed: bool) -> tuple[Any, Any, Any]:
    """Draw a left and a right factor as training has them, and an array for the product."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((k, m) if transposed else (m, k), dtype=np.float32)
    right = rng.standard_normal((k, n) if transposed else (n, k), dtype=np.float32)
    return left.T if transposed else left, right if transposed else right.T, np.empty((m, n), np.float32)


def ladder(size: int = 768) -> dict[str, float]:
    """Time every rung on square matrices, the plain ones on one thread."""
    a, b, c = factors(size, size, size, transposed=False)
    b = np.ascontiguousarray(b)
    rungs: dict[str, Callable[[], Any]] = {
        rung.__name__: lambda rung=rung: rung(a, b, c) for rung in (naive, loop_order, blocked, packed)
    }
    if FLOAT32 is not None:
        rungs["blocks in registers"] = lambda: multiply(a, b, c, FLOAT32)
    count = hardware.threads()
    hardware.prepare(1)
    found = rates(rungs | {"BLAS": lambda: product_into(a, b, c, False)}, 2 * size**3, rounds=5)
    hardware.prepare(count)
    both: dict[str, Callable[[], Any]] = {f"BLAS, {count} threads": lambda: product_into(a, b, c, False)}
    for name, block in BLOCKS.items():
        if block is not None:
            both[f"{name}, {count} threads"] = lambda block=block: multiply(a, b, c, block)
    return found | rates(both, 2 * size**3, rounds=9)


def main() -> None:
    """Print two tables and JSON."""
    threads.set_threads(hardware.threads())
    use("blas")
    print(hardware.describe())
    found = ladder()
    for name, rate in found.items():
        print(f"{name:<22} {rate:8.1f} GFLOP/s")
    titles = "".join(f" {name:>13} {'of BLAS':>8}" for name in BLOCKS)
    print(f"\n{'shape':<24} {'BLAS':>7}{titles}")
    results = []
    for m, k, n, transposed in SHAPES:
        a, b, c = factors(m, k, n, transposed)
        contestants: dict[str, Callable[[], Any]] = {"BLAS": lambda a=a, b=b, c=c: product_into(a, b, c, False)}
        for name, block in BLOCKS.items():
            if block is not None:
                contestants[name] = lambda a=a, b=b, c=c, block=block: multiply(a, b, c, block)
        rate = rates(contestants, 2.0 * m * k * n, rounds=15)
        results.append({"shape": [m, k, n], "transposed": transposed, **rate})
        shape = f"{m}, {k}, {n}{' w' if transposed else ''}"
        ours = [rate.get(name, np.nan) for name in BLOCKS]
        print(
            f"{shape:<24} {rate['BLAS']:7.0f}" + "".join(f" {each:13.0f} {each / rate['BLAS']:8.2f}" for each in ours)
        )
    print(json.dumps({"machine": hardware.describe(), "ladder": found, "shapes": results}))


if __name__ == "__main__":
    main()
