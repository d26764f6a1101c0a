"""A heap in plain arrays: the smallest row is always row 0.

A row is two numbers, compared by the first, then by the second. Row i stands above rows 4i+1 to 4i+4 and is never
larger than any of them, so putting in a row or taking out the smallest moves only log4(size) rows. Four of them, and
not two as in most books, because they lie side by side: the processor fetches them from memory in one go. The moving
row is written once, where it comes to rest; until then its old place is a hole that others move into.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer.jit import kernel

Heap = NDArray[np.int64]  # (room, 2); only the first `size` rows count


@kernel
def push(heap: Heap, size: int, first: int, second: int) -> int:
    """Put a row in and return the new size."""
    i = size
    while i > 0:
        above = (i - 1) // 4
        if heap[above, 0] < first or (heap[above, 0] == first and heap[above, 1] <= second):
            break
        heap[i, 0], heap[i, 1] = heap[above, 0], heap[above, 1]
        i = above
    heap[i, 0], heap[i, 1] = first, second
    return size + 1


@kernel
def replace_smallest(heap: Heap, size: int, first: int, second: int) -> None:
    """Put another row in for row 0."""
    i = 0
    while 4 * i + 1 < size:
        least = 4 * i + 1
        for child in range(least + 1, min(least + 4, size)):
            if heap[child, 0] < heap[least, 0] or (
                heap[child, 0] == heap[least, 0] and heap[child, 1] < heap[least, 1]
            ):
                least = child
        if first < heap[least, 0] or (first == heap[least, 0] and second <= heap[least, 1]):
            break
        heap[i, 0], heap[i, 1] = heap[least, 0], heap[least, 1]
        i = least
    heap[i, 0], heap[i, 1] = first, second


@kernel
def drop_smallest(heap: Heap, size: int) -> int:
    """Take row 0 out and return the new size."""
    replace_smallest(heap, size - 1, heap[size - 1, 0], heap[size - 1, 1])
    return size - 1
