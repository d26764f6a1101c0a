"""The speed-up of two techniques of the kernels on one core: tiles for products, integers for the maximum.

python benchmarks/kernel_times.py
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from machine import describe_machine
from turns import medians

from minigrad.kernels.gemm.ladder import add_product
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.softmax import largest_of

M, K, N = 96, 64, 128
ROUNDS = 200


@kernel
def triple_loop(a: Any, b: Any, c: Any, m: int, k: int, n: int) -> None:
    """Add a matrix product by its definition: one element after the other."""
    for i in range(m):
        for j in range(n):
            total = a.dtype.type(0)
            for p in range(k):
                total += a[i, p] * b[p, j]
            c[i, j] += total


@kernel
def running_maxima(x: Any, out: Any) -> None:
    """Compute the maximum of each row, one element after the other."""
    for i in range(x.shape[0]):
        largest = x[i, 0]
        for j in range(x.shape[1]):
            largest = max(largest, x[i, j])
        out[i] = largest


@kernel
def integer_maxima(x: Any, out: Any) -> None:
    """Compute the maximum of each row from the bits of its elements, read as integers."""
    for i in range(x.shape[0]):
        out[i] = largest_of(x[i])


def main() -> None:
    """Print both comparisons, then the same as JSON."""
    rng = np.random.default_rng(0)
    a, b, c = rng.random((M, K), np.float32), rng.random((K, N), np.float32), np.zeros((M, N), np.float32)
    x, out = rng.random((256, 4_096), np.float32), np.empty(256, np.float32)
    products = {
        "product, triple loop (GFLOP/s)": lambda: triple_loop(a, b, c, M, K, N),
        "product, tiles (GFLOP/s)": lambda: add_product(a, b, c, M, K, N),
    }
    maxima = {
        "maximum, running (billion numbers/s)": lambda: running_maxima(x, out),
        "maximum, as integers (billion numbers/s)": lambda: integer_maxima(x, out),
    }
    figures = {name: 2e-9 * M * K * N / seconds for name, seconds in medians(products, ROUNDS).items()}
    figures |= {name: 1e-9 * x.size / seconds for name, seconds in medians(maxima, ROUNDS).items()}
    print(describe_machine())
    for name, figure in figures.items():
        print(f"{name:<38} {figure:6.1f}")
    print(json.dumps({"machine": describe_machine(), **figures}))


if __name__ == "__main__":
    main()
