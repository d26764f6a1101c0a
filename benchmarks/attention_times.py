"""The two passes of attention in float32 and in bfloat16, one thread, in turns; medians in milliseconds.

python benchmarks/attention_times.py
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict

from machine import describe_machine

from minigrad.system import hardware  # isort: skip  (before NumPy)

import numpy as np

from minigrad.kernels.attention.backward import attention_backward
from minigrad.kernels.attention.forward import attention_forward
from minigrad.kernels.attention.plan import Plan
from minigrad.kernels.gemm import backend

SHAPES = {"nano, 8 x 256": (8, 256, 3, 1, 32), "2.0, 2 x 512": (2, 512, 9, 3, 64)}
"""Sequences, tokens of each, query heads, key/value heads, elements of a head."""
TURNS = 30


def measure(shape: tuple[int, ...]) -> dict[str, list[float]]:
    """Return the medians of the forward and the backward pass for each precision."""
    sequences, tokens, heads, kv_heads, size = shape
    rng, offsets = np.random.default_rng(0), np.arange(sequences + 1) * tokens
    ranges, visible = np.stack([offsets[:-1], offsets[1:]], axis=1), np.tile(np.arange(1, tokens + 1), sequences)
    plan = Plan(offsets, ranges, visible, size**-0.5)
    q, k, v, dout = (
        rng.standard_normal((offsets[-1], each, size)).astype(np.float32) for each in (heads, kv_heads, kv_heads, heads)
    )
    seconds = defaultdict[tuple[str, int], list[float]](list)
    for _ in range(TURNS):
        for precision in ("float32", "bfloat16"):
            backend.use("auto", precision)
            times = [time.perf_counter()]
            out, denominators = attention_forward(q, k, v, plan)
            times.append(time.perf_counter())
            attention_backward(dout, q, k, v, out, denominators, plan)
            times.append(time.perf_counter())
            for number in range(2):
                seconds[precision, number].append(times[number + 1] - times[number])
    # The first turn may compile.
    return {
        precision: [1e3 * statistics.median(seconds[precision, number][1:]) for number in range(2)]
        for precision in ("float32", "bfloat16")
    }


def main() -> None:
    """Print one row for each shape and precision."""
    hardware.prepare(1)
    print(describe_machine(), "\n")
    print("| shape, precision | forward, ms | backward, ms |\n| --- | --: | --: |")
    for name, shape in SHAPES.items():
        for precision, (forward, backward) in measure(shape).items():
            print(f"| {name}, {precision} | {forward:.2f} | {backward:.2f} |")


if __name__ == "__main__":
    main()
