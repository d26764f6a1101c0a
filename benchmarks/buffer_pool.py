"""Would a pool of buffers make tensors of changing shapes faster? Steps with it, without it, and with glibc's defaults.

A step makes arrays for a batch of a random number of rows, writes each once, and drops them all, as a forward and
backward pass on packed sequences does. The pool keeps dropped memory in lists by its size, rounded up to a power of
two. Without it NumPy asks the C library, which `minigrad.system.hardware` tells to keep freed memory.

    python benchmarks/buffer_pool.py
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from machine import describe_machine

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
STEPS, ROUNDS = 30, 7
WIDTHS = [96] * 30 + [256] * 15  # of the arrays that a layer makes per row


class Pool:
    """Dropped memory by size, a power of two of bytes, with the numbers of hits and misses.

    >>> pool = Pool()
    >>> first = pool.acquire((3, 5))
    >>> pool.release(first)
    >>> again = pool.acquire((4, 4))  # 60 and 64 bytes belong to the same list
    >>> (again.shape, pool.hits, pool.misses)
    ((4, 4), 1, 1)
    """

    def __init__(self) -> None:
        self.free: dict[int, list[Array]] = {}
        self.hits = self.misses = self.bytes = 0

    def acquire(self, shape: tuple[int, ...]) -> Array:
        """Return an array of this shape whose elements have any value."""
        elements = int(np.prod(shape))
        size = 1 << max(0, elements - 1).bit_length()
        kept = self.free.setdefault(size, [])
        if kept:
            self.hits += 1
            memory = kept.pop()
        else:
            self.misses += 1
            self.bytes += 4 * size
            memory = np.empty(size, np.float32)
        return memory[:elements].reshape(shape)

    def release(self, array: Array) -> None:
        """Take the memory of an array back."""
        memory = array.base
        assert isinstance(memory, np.ndarray)
        self.free[memory.size].append(memory)


def steps(take: Callable[[tuple[int, ...]], Array], give: Callable[[Array], None]) -> float:
    """Return the seconds of a step."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for rows in rng.integers(1024, 2049, STEPS):
        arrays = []
        for width in WIDTHS:
            array = take((int(rows), width))
            array.fill(1)
            arrays.append(array)
        for array in arrays:
            give(array)
    return (time.perf_counter() - start) / STEPS


def without_pool() -> float:
    """Return the seconds of a step in which NumPy allocates each array."""
    return steps(lambda shape: np.empty(shape, np.float32), lambda array: None)


def main() -> None:
    """Print milliseconds per step, hits, and what the pool holds."""
    if "--defaults" in sys.argv:
        print(statistics.median(without_pool() for _ in range(ROUNDS)))
        return
    from minigrad.system import hardware

    hardware.prepare()
    pool, seconds = Pool(), {"np.empty": list[float](), "pool": list[float]()}
    for _ in range(ROUNDS):
        seconds["np.empty"].append(without_pool())
        seconds["pool"].append(steps(pool.acquire, pool.release))
    found = {name: 1000 * statistics.median(times) for name, times in seconds.items()}
    defaults = subprocess.run([sys.executable, __file__, "--defaults"], capture_output=True, text=True, check=True)
    found["np.empty, glibc's defaults"] = 1000 * float(defaults.stdout)
    for name, milliseconds in found.items():
        print(f"{name:28} {milliseconds:8.3f} ms per step")
    largest = 4 * 2048 * sum(WIDTHS)
    hits = pool.hits / (pool.hits + pool.misses)
    print(f"pool: {hits:.1%} hits, holds {pool.bytes / 1e6:.1f} MB for steps of at most {largest / 1e6:.1f} MB")
    print(describe_machine())
    print(
        json.dumps(
            found
            | {"machine": describe_machine(), "hits": hits, "pool_bytes": pool.bytes, "largest_step_bytes": largest}
        )
    )


if __name__ == "__main__":
    main()
