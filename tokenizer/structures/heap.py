"""A heap in plain arrays: row 0 is always the smallest row.

A row is two numbers, compared by the first, then by the second. The children of row i are rows 4i+1 to 4i+4, and no
child is smaller than its parent. So inserting a row, or removing the smallest, moves only log4(size) rows. A parent has
four children, not two as in most books, because adjacent rows come from memory together. The moving row is written
once, at its final position; until then other rows move into the gap that it left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer.jit import kernel

Heap = NDArray[np.int64]  # (capacity, 2); only the first `size` rows are in use


@kernel
def push(heap: Heap, size: int, first: int, second: int) -> int:
    """Insert a row and return the new size."""
    i = size
    while i > 0:
        parent = (i - 1) // 4
        if heap[parent, 0] < first or (heap[parent, 0] == first and heap[parent, 1] <= second):
            break
        heap[i, 0], heap[i, 1] = heap[parent, 0], heap[parent, 1]
        i = parent
    heap[i, 0], heap[i, 1] = first, second
    return size + 1


@kernel
def replace_smallest(heap: Heap, size: int, first: int, second: int) -> None:
    """Remove row 0 and insert another row."""
    i = 0
    while 4 * i + 1 < size:
        smallest = 4 * i + 1
        for child in range(smallest + 1, min(smallest + 4, size)):
            if heap[child, 0] < heap[smallest, 0] or (
                heap[child, 0] == heap[smallest, 0] and heap[child, 1] < heap[smallest, 1]
            ):
                smallest = child
        if first < heap[smallest, 0] or (first == heap[smallest, 0] and second <= heap[smallest, 1]):
            break
        heap[i, 0], heap[i, 1] = heap[smallest, 0], heap[smallest, 1]
        i = smallest
    heap[i, 0], heap[i, 1] = first, second


@kernel
def drop_smallest(heap: Heap, size: int) -> int:
    """Remove row 0 and return the new size."""
    replace_smallest(heap, size - 1, heap[size - 1, 0], heap[size - 1, 1])
    return size - 1
