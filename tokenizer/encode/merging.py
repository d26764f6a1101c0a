"""Merging the tokens of one word: of all pairs that have a merge, the one learned first is merged, until none is left.

To scan the word again after each merge would take quadratic time, and a word can be a whole document. So the tokens of
a word are a linked list, and the pairs that have a merge are in a heap, ordered by rank (the order of learning), then
by position. A merge changes only the pairs on its two sides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer.jit import kernel
from tokenizer.structures.hash_table import NumberTable, empty_slots, insert_numbers, number_slot
from tokenizer.structures.heap import Heap, drop_smallest, push

Ids = NDArray[np.int32]
RESULT = 1  # the column of a merge after KEY


def merge_table(merges: Iterable[tuple[int, int, int]]) -> NumberTable:
    """Return the table of merges (left, right, result), in the order of learning: the row of a pair is its rank."""
    rows = np.array([(left << 32 | right, result) for left, right, result in merges], np.int64).reshape(-1, 2)
    table = NumberTable(empty_slots(len(rows)), rows)
    insert_numbers(table, len(rows))
    return table


class Workspace(NamedTuple):
    """Scratch arrays for the merges of one word; all but the heap have one entry per byte of the word."""

    tokens: Ids
    before: Ids  # the position of the token before
    after: Ids  # the position of the token after
    ranks: Ids  # the rank of the pair that begins here; -1 if it has no merge, or no longer exists
    heap: Heap  # rows of (rank, position)

    @classmethod
    def of(cls, length: int) -> Workspace:
        """Make scratch arrays for a word of up to `length` bytes."""
        # A word of n bytes has n - 1 pairs, and each merge removes a pair from the heap and adds two at most.
        heap = np.empty((2 * length, 2), np.int64)
        tokens, before, after, ranks = (np.empty(length, np.int32) for _ in range(4))
        return cls(tokens, before, after, ranks, heap)


@kernel
def _push_pair(work: Workspace, length: int, position: int, merges: NumberTable, heap_size: int) -> int:
    """Store the rank of the pair at `position`, and push the pair if it has one; return the new size of the heap."""
    rank = -1
    if work.after[position] < length:
        key = np.int64(work.tokens[position]) << 32 | work.tokens[work.after[position]]
        rank = int(merges.slots[number_slot(merges, key)])
    work.ranks[position] = rank
    if rank >= 0:
        heap_size = push(work.heap, heap_size, rank, position)
    return heap_size


@kernel
def merge_word(work: Workspace, length: int, merges: NumberTable) -> int:
    """Merge the first `length` tokens of the workspace in place; return how many are left."""
    heap_size = 0
    for position in range(length):
        work.before[position] = position - 1
        work.after[position] = position + 1
        heap_size = _push_pair(work, length, position, merges, heap_size)
    while heap_size > 0:
        rank, position = work.heap[0, 0], work.heap[0, 1]
        heap_size = drop_smallest(work.heap, heap_size)
        if work.ranks[position] != rank:
            continue  # another merge used one of the two tokens
        partner = work.after[position]
        work.ranks[partner] = -1
        work.tokens[position] = merges.rows[rank, RESULT]
        work.after[position] = work.after[partner]
        if work.after[position] < length:
            work.before[work.after[position]] = position
        heap_size = _push_pair(work, length, position, merges, heap_size)
        if work.before[position] >= 0:
            heap_size = _push_pair(work, length, work.before[position], merges, heap_size)
    num_left, position = 0, 0
    while position < length:
        work.tokens[num_left] = work.tokens[position]
        num_left += 1
        position = work.after[position]
    return num_left
