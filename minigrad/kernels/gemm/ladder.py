"""The matrix product, from three plain loops to the speed of the processor: a ladder, one idea per rung.

$c_{ij} = \\sum_k a_{ik} b_{kj}$ is 2 M N K FLOPs on no more than M K + K N + M N elements, so each element is used
again and again. Every rung does the same FLOPs; what changes is where the elements are read from: memory, a cache, or a
register.

1. `naive`: the definition. Each step reads b one row further down, from another cache line every time.
2. `loop_order`: the two inner loops are exchanged. Now all reads are contiguous and fill whole vector registers.
3. `blocked`: a block of b that fits into the cache is used for all rows of a before the next block is read.
4. `packed`: that block is copied to contiguous memory first, and four rows are computed at a time (`add_product`).
5. `minigrad.kernels.gemm.panels.multiply`: a block of the result stays in registers
   (`minigrad.kernels.codegen.microkernel`), both factors are packed.
6. The same on all threads.
7. The same in tile registers, each float32 split into three bfloat16 parts
   (`minigrad.kernels.codegen.bfloat16_pairs`): faster than the processor's own float32 instructions can be. Where there
   are such registers, training uses this rung.

benchmarks/matmul.py times every rung against NumPy's BLAS.
"""

from __future__ import annotations

import numpy as np

from minigrad.kernels.jit import allocating, kernel
from minigrad.typing import Array


@kernel
def naive(a: Array, b: Array, c: Array) -> None:
    """Rung 1: c = a @ b as the definition says."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = a.dtype.type(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@kernel
def loop_order(a: Array, b: Array, c: Array) -> None:
    """Rung 2: row k of b, times one element of a, is added to row i of c."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@kernel
def blocked(a: Array, b: Array, c: Array) -> None:
    """Rung 3: rung 2 on blocks of b of 64 x 512 elements, which stay in the second-level cache."""
    c[...] = 0
    for first in range(0, b.shape[1], 512):
        for begin in range(0, a.shape[1], 64):
            for i in range(a.shape[0]):
                for k in range(begin, min(begin + 64, a.shape[1])):
                    # Slices indexed from 0: an index that starts at `first` might be negative, as far as the compiler
                    # knows, and it would load single elements instead of whole registers.
                    factor, sums, line = a[i, k], c[i, first : first + 512], b[k, first : first + 512]
                    for j in range(sums.size):
                        sums[j] += factor * line[j]


@allocating
def packed(a: Array, b: Array, c: Array) -> None:
    """Rung 4: contiguous copies of blocks of a and b, multiplied four rows by four terms of the sum at a time."""
    left, right = np.empty((96, 128), a.dtype), np.empty((128, 128), a.dtype)
    sums = np.empty((96, 128), a.dtype)
    for row in range(0, a.shape[0], 96):
        m = min(96, a.shape[0] - row)
        for column in range(0, b.shape[1], 128):
            n = min(128, b.shape[1] - column)
            sums[...] = 0
            for begin in range(0, a.shape[1], 128):
                k = min(128, a.shape[1] - begin)
                for i in range(m):
                    for p in range(k):
                        left[i, p] = a[row + i, begin + p]
                for p in range(k):
                    for j in range(n):
                        right[p, j] = b[begin + p, column + j]
                add_product(left, right, sums, m, k, n)
            for i in range(m):
                for j in range(n):
                    c[row + i, column + j] = sums[i, j]


@kernel
def add_product(a: Array, b: Array, c: Array, m: int, k: int, n: int) -> None:
    """c[:m, :n] += a[:m, :k] @ b[:k, :n], four rows by four terms of the sum at a time, in plain loops.

    Sixteen multiply-adds for every twelve elements that are loaded or stored: as far as the compiler gets by itself.
    Measured on one core (benchmarks/kernel_times.py): 73 GFLOP/s, the plain triple loop 4.
    """
    m4, k4 = m - m % 4, k - k % 4
    for i in range(0, m4, 4):
        for p in range(0, k4, 4):
            a00, a01, a02, a03 = a[i, p], a[i, p + 1], a[i, p + 2], a[i, p + 3]
            a10, a11, a12, a13 = a[i + 1, p], a[i + 1, p + 1], a[i + 1, p + 2], a[i + 1, p + 3]
            a20, a21, a22, a23 = a[i + 2, p], a[i + 2, p + 1], a[i + 2, p + 2], a[i + 2, p + 3]
            a30, a31, a32, a33 = a[i + 3, p], a[i + 3, p + 1], a[i + 3, p + 2], a[i + 3, p + 3]
            for j in range(n):
                b0, b1, b2, b3 = b[p, j], b[p + 1, j], b[p + 2, j], b[p + 3, j]
                c[i, j] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                c[i + 1, j] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                c[i + 2, j] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
                c[i + 3, j] += a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
        for p in range(k4, k):
            a00, a10, a20, a30 = a[i, p], a[i + 1, p], a[i + 2, p], a[i + 3, p]
            for j in range(n):
                c[i, j] += a00 * b[p, j]
                c[i + 1, j] += a10 * b[p, j]
                c[i + 2, j] += a20 * b[p, j]
                c[i + 3, j] += a30 * b[p, j]
    for i in range(m4, m):
        for p in range(k):
            a00 = a[i, p]
            for j in range(n):
                c[i, j] += a00 * b[p, j]
