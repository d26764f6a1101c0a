"""Hash tables in plain arrays: they find the row of a word, or of a number, without a search through all rows.

A hash function maps each key to a slot; there are at least twice as many slots as rows. A slot holds the index of a
row, or -1 if it is empty. If the slot of a new key is taken, the key gets the next empty slot (linear probing). So a
lookup starts at the key's slot and goes on until it reaches the key or an empty slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer.jit import kernel

Slots = NDArray[np.int32]  # the length is a power of two and at least twice the number of rows
Rows = NDArray[np.int64]  # (capacity, columns)

START, LENGTH, HASH = range(3)  # the first columns of a word table; its user may add more
KEY = 0  # the first column of a number table


class WordTable(NamedTuple):
    """Rows that are found by a word: the word of a row is word_bytes[START : START + LENGTH], and HASH is its hash."""

    slots: Slots
    rows: Rows
    word_bytes: NDArray[np.uint8]


class NumberTable(NamedTuple):
    """Rows that are found by a number, their KEY."""

    slots: Slots
    rows: Rows


def empty_slots(capacity: int) -> Slots:
    """Return empty slots for up to `capacity` rows."""
    return np.full(1 << max(3, (2 * capacity - 1).bit_length()), -1, np.int32)


@kernel
def hash_of(text: NDArray[np.uint8], start: int, end: int) -> int:
    """Return a 32-bit hash of text[start:end] (Fowler, Noll and Vo's FNV-1a)."""
    value = 0x811C9DC5
    for i in range(start, end):
        value = (value ^ int(text[i])) * 0x01000193 & 0xFFFFFFFF
    return value


@kernel
def word_slot(table: WordTable, text: NDArray[np.uint8], start: int, end: int, word_hash: int) -> int:
    """Return the slot of the word text[start:end], or, if it is not in the table, the empty slot for it."""
    slots, rows, word_bytes = table.slots, table.rows, table.word_bytes
    mask = len(slots) - 1
    slot = (word_hash ^ word_hash >> 15) & mask
    while slots[slot] >= 0:
        row = slots[slot]
        if rows[row, HASH] == word_hash and rows[row, LENGTH] == end - start:
            first, i = rows[row, START], 0
            while i < end - start and word_bytes[first + i] == text[start + i]:
                i += 1
            if i == end - start:
                break
        slot = (slot + 1) & mask
    return slot


@kernel
def insert_words(table: WordTable, num_rows: int) -> None:
    """Fill empty slots with the first `num_rows` rows, whose words are all different."""
    mask = len(table.slots) - 1
    for row in range(num_rows):
        slot = (table.rows[row, HASH] ^ table.rows[row, HASH] >> 15) & mask
        while table.slots[slot] >= 0:
            slot = (slot + 1) & mask
        table.slots[slot] = row


@kernel
def number_slot(table: NumberTable, key: int) -> int:
    """Return the slot of the row with this KEY, or, if there is none, the empty slot for it."""
    mask = len(table.slots) - 1
    # The product mixes low bits into high ones, and the shift moves those down again. 2^31 * 2^31 does not overflow.
    mixed = ((key ^ key >> 31) & 0x7FFFFFFF) * 0x5BD1E995
    slot = (mixed ^ mixed >> 24) & mask
    while table.slots[slot] >= 0 and table.rows[table.slots[slot], KEY] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def insert_numbers(table: NumberTable, num_rows: int) -> None:
    """Fill empty slots with the first `num_rows` rows, whose keys are all different."""
    for row in range(num_rows):
        table.slots[number_slot(table, table.rows[row, KEY])] = row
