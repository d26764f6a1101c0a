"""The patterns of attention on sequences of growing length: seconds forward and backward, and peak memory.

One sequence, the window, block and number of chosen keys of the 1b size of vsla. Adaptive is measured at both ends: if
no token looks beyond its near keys, and if all do. A pattern's speed is given as a multiple of full attention's, both
passes together. Memory is the peak of what both passes allocate: the output, the three gradients, and what is stored.

    python benchmarks/attention_patterns.py [--lengths 128 512 2048 8192] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from typing import Any

import numpy as np
from machine import describe_machine

from minigrad import Tensor
from models.vsla.patterns import PATTERNS, AttentionPattern

HEADS, SIZE = 9, 64
WINDOW, BLOCK, TOP_K = 256, 32, 64


def patterns() -> dict[str, AttentionPattern]:
    """Return what is measured, by name."""
    shares = {"adaptive": {"adaptive, near": 1.0, "adaptive, far": 0.0}}
    names = {name: (kind, share) for kind in PATTERNS for name, share in shares.get(kind, {kind: 0.5}).items()}
    return {name: AttentionPattern(kind, WINDOW, BLOCK, TOP_K, share) for name, (kind, share) in names.items()}


def inputs(length: int) -> list[Tensor]:
    """Return queries, keys, values, and the gradient that arrives, of one sequence."""
    rng = np.random.default_rng(0)
    return [Tensor(rng.standard_normal((length, HEADS, SIZE), dtype=np.float32), requires_grad=n < 3) for n in range(4)]


def once(pattern: AttentionPattern, q: Tensor, k: Tensor, v: Tensor, dout: Tensor) -> tuple[float, float]:
    """Return the seconds of the forward and of the backward pass."""
    start = time.perf_counter()
    out = pattern.attend(q, k, v, np.array([0, len(q)]))
    middle = time.perf_counter()
    out.backward(dout.data)
    return middle - start, time.perf_counter() - middle


def peak(pattern: AttentionPattern, length: int) -> int:
    """Return the bytes that both passes allocate at most."""
    given = inputs(length)
    tracemalloc.start()
    once(pattern, *given)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def measure(lengths: list[int], repeats: int) -> list[dict[str, Any]]:
    """Return a row for each length and pattern; the best of several runs, taken in turns."""
    rows = []
    for length in lengths:
        best = dict.fromkeys(patterns(), (np.inf, np.inf))
        for _ in range(repeats):
            for name, pattern in patterns().items():
                best[name] = min(best[name], once(pattern, *inputs(length)), key=sum)
        for name, (forward, backward) in best.items():
            speed = sum(best["full"]) / (forward + backward)
            row = {"length": length, "pattern": name, "forward": forward, "backward": backward, "speed": speed}
            rows.append(row | {"peak_bytes": peak(patterns()[name], length)})
    return rows


def main() -> None:
    """Compile on a short sequence, measure, print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512, 1_024, 2_048, 4_096, 8_192])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for pattern in patterns().values():
        once(pattern, *inputs(2 * WINDOW))
    rows = measure(arguments.lengths, arguments.repeats)
    print(f"{describe_machine()}; {HEADS} heads x {SIZE}, window {WINDOW}, block {BLOCK}, top_k {TOP_K}\n")
    print("| length | pattern | forward s | backward s | speed against full | peak MB |")
    print("| --: | --- | --: | --: | --: | --: |")
    for row in rows:
        print(
            f"| {row['length']:,} | {row['pattern']} | {row['forward']:.4f} | {row['backward']:.4f} | "
            f"{row['speed']:.1f}x | {row['peak_bytes'] / 1e6:.1f} |"
        )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
