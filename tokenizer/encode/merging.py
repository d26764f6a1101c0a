"""Merging the tokens of one word: of all pairs that have a merge, do the one learned first, until none is left.

Rescanning the word after each merge would take quadratic time, and a word can be a whole document. So the
tokens of a word are a linked list, and the pairs that can be merged wait in a heap, ordered by rank (when the
merge was learned), then by place (from left to right). A merge changes only the pairs on its two sides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer.jit import kernel
from tokenizer.structures.hash_table import Rows, Slots, free_slots, number_slot, seat_numbers
from tokenizer.structures.heap import Heap, drop_smallest, push

Ids = NDArray[np.int32]
RESULT = 1  # the column of the merges after KEY


class Merges(NamedTuple):
    """All merges, in a form that answers at once which one a pair has."""

    rows: Rows  # (merges, 2): the pair as one number, left << 32 | right, and its result; the row number is the rank
    slots: Slots  # where to find a pair among the rows

    @classmethod
    def of(cls, pairs: list[tuple[int, int]], results: list[int]) -> Merges:
        """Lay merges out, the one learned first in front."""
        keys = [left << 32 | right for left, right in pairs]
        rows = np.ascontiguousarray(np.array([keys, results], np.int64).T)
        slots = free_slots(len(rows))
        seat_numbers(slots, rows, len(rows))
        return cls(rows, slots)


class Desk(NamedTuple):
    """Room to merge one word."""

    tokens: Ids
    before: Ids
    after: Ids
    awaited: Ids  # for each place, the rank of the pair that begins there, as far as it waits in the heap
    heap: Heap

    @classmethod
    def of(cls, length: int) -> Desk:
        """Make room for a word of so many bytes."""
        # A word of n bytes has n - 1 pairs, and each merge adds one to the heap at most.
        heap = np.empty((2 * length, 2), np.int64)
        tokens, before, after, awaited = (np.empty(length, np.int32) for _ in range(4))
        return cls(tokens, before, after, awaited, heap)


@kernel
def _await(desk: Desk, length: int, place: int, merges: Merges, size: int) -> int:
    """Note the rank of the pair that begins at `place`, put it into the heap, return the heap's new size."""
    rank = -1
    if desk.after[place] < length:
        key = np.int64(desk.tokens[place]) << 32 | desk.tokens[desk.after[place]]
        rank = int(merges.slots[number_slot(merges.slots, merges.rows, key)])
    desk.awaited[place] = rank
    if rank >= 0:
        size = push(desk.heap, size, rank, place)
    return size


@kernel
def merge_word(desk: Desk, length: int, merges: Merges) -> int:
    """Merge the first tokens on the desk, `length` of them, in place; return how many are left."""
    size = 0
    for place in range(length):
        desk.before[place] = place - 1
        desk.after[place] = place + 1
        size = _await(desk, length, place, merges, size)
    while size > 0:
        rank, place = desk.heap[0, 0], desk.heap[0, 1]
        size = drop_smallest(desk.heap, size)
        if desk.awaited[place] != rank:
            continue  # a neighbouring merge took one of the two tokens; the pair is gone
        partner = desk.after[place]
        desk.awaited[partner] = -1
        desk.tokens[place] = merges.rows[rank, RESULT]
        desk.after[place] = desk.after[partner]
        if desk.after[place] < length:
            desk.before[desk.after[place]] = place
        size = _await(desk, length, place, merges, size)
        if desk.before[place] >= 0:
            size = _await(desk, length, desk.before[place], merges, size)
    left, place = 0, 0
    while place < length:
        desk.tokens[left] = desk.tokens[place]
        left += 1
        place = desk.after[place]
    return left
