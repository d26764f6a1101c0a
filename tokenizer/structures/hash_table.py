"""Hash tables in plain arrays: from the bytes of a word, or from a number, to a row.

A hash scatters the keys over twice as many slots as there are rows; a slot holds a row's number, or -1. A key whose
slot is taken goes to the next free one, so looking it up walks from its slot until the key or a free slot is met.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer.jit import kernel

Slots = NDArray[np.int32]  # a power of two, at least twice the rows
Rows = NDArray[np.int64]  # (room, columns)

# The first columns of a table of words; what else a row holds is its owner's business.
START, LENGTH, HASH = range(3)
KEY = 0  # the first column of a table of numbers


def free_slots(room: int) -> Slots:
    """Return empty slots for so many rows."""
    return np.full(1 << max(3, (2 * room - 1).bit_length()), -1, np.int32)


@kernel
def hash_of(text: NDArray[np.uint8], start: int, end: int) -> int:
    """Return a 32-bit hash of some bytes (Fowler, Noll and Vo's FNV-1a)."""
    found = 0x811C9DC5
    for i in range(start, end):
        found = (found ^ int(text[i])) * 0x01000193 & 0xFFFFFFFF
    return found


@kernel
def word_slot(
    slots: Slots, rows: Rows, letters: NDArray[np.uint8], text: NDArray[np.uint8], start: int, end: int, code: int
) -> int:
    """Return the slot of the word text[start:end], whose hash is `code`: the one it has, or the free one it may take.

    The bytes of row r stand in `letters`, from its START on.
    """
    mask = len(slots) - 1
    slot = (code ^ code >> 15) & mask
    while slots[slot] >= 0:
        row = slots[slot]
        if rows[row, HASH] == code and rows[row, LENGTH] == end - start:
            first, i = rows[row, START], 0
            while i < end - start and letters[first + i] == text[start + i]:
                i += 1
            if i == end - start:
                break
        slot = (slot + 1) & mask
    return slot


@kernel
def seat_words(slots: Slots, rows: Rows, num_rows: int) -> None:
    """Give each of the first rows its slot; all words are different and the slots are free."""
    mask = len(slots) - 1
    for row in range(num_rows):
        slot = (rows[row, HASH] ^ rows[row, HASH] >> 15) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = row


@kernel
def number_slot(slots: Slots, rows: Rows, key: int) -> int:
    """Return the slot of the row whose KEY is this number, or the free slot it may take."""
    mask = len(slots) - 1
    # Multiplying mixes low bits into high ones, and the shift brings them down again. 2^31 * 2^31 does not overflow.
    mixed = ((key ^ key >> 31) & 0x7FFFFFFF) * 0x5BD1E995
    slot = (mixed ^ mixed >> 24) & mask
    while slots[slot] >= 0 and rows[slots[slot], KEY] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def seat_numbers(slots: Slots, rows: Rows, num_rows: int) -> None:
    """Give each of the first rows its slot; all keys are different and the slots are free."""
    for row in range(num_rows):
        slots[number_slot(slots, rows, rows[row, KEY])] = row
