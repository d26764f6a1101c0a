"""A binary heap in plain arrays: the smallest row is always row 0.

A row is compared by its first number, then by its second. Row i stands above rows 2i+1 and 2i+2 and is never
larger than either, so putting in a row or taking out the smallest moves only log2(size) rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer.kernels import kernel

Heap = NDArray[np.int64]  # (room, columns); only the first `size` rows count


@kernel
def _is_less(heap: Heap, i: int, j: int) -> bool:
    if heap[i, 0] != heap[j, 0]:
        return bool(heap[i, 0] < heap[j, 0])
    return bool(heap[i, 1] < heap[j, 1])


@kernel
def _swap(heap: Heap, i: int, j: int) -> None:
    for column in range(heap.shape[1]):
        heap[i, column], heap[j, column] = heap[j, column], heap[i, column]


@kernel
def rise(heap: Heap, i: int) -> None:
    """Move row i up to its place; call it after writing a new last row."""
    while i > 0 and _is_less(heap, i, (i - 1) // 2):
        _swap(heap, i, (i - 1) // 2)
        i = (i - 1) // 2


@kernel
def sink(heap: Heap, size: int) -> None:
    """Move row 0 down to its place; call it after overwriting row 0."""
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _is_less(heap, child + 1, child):
            child += 1
        if not _is_less(heap, child, i):
            return
        _swap(heap, i, child)
        i = child


@kernel
def drop_smallest(heap: Heap, size: int) -> int:
    """Take row 0 out and return the new size."""
    _swap(heap, 0, size - 1)
    sink(heap, size - 1)
    return size - 1
