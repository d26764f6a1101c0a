"""The tokens of words that were encoded before: a text repeats its words, and a lookup is faster than merging.

When the cache is full, it is emptied and fills again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer.encode.merging import Ids
from tokenizer.jit import kernel
from tokenizer.structures.hash_table import HASH, LENGTH, START, Rows, Slots, WordTable, empty_slots, word_slot

MAX_LENGTH = 64  # bytes; a longer word rarely occurs again and is not cached
FIRST, NUMBER = 3, 4  # the columns of a cached word after HASH: its tokens are ids[FIRST : FIRST + NUMBER]
NUM_COLUMNS = 5
WORDS, BYTES, IDS = range(3)  # what `used` counts


class WordCache(NamedTuple):
    """Words and their tokens: a word table, and the ids that its rows refer to.

    The table's arrays are fields of the cache, because Numba takes longer to pass a tuple inside a tuple.
    """

    slots: Slots
    rows: Rows
    word_bytes: NDArray[np.uint8]
    ids: Ids
    used: NDArray[np.int64]  # (3,): how many words, bytes and ids are cached

    @classmethod
    def of(cls, num_words: int) -> WordCache:
        """Make an empty cache for `num_words` words of average length."""
        rows = np.empty((num_words, NUM_COLUMNS), np.int64)
        word_bytes = np.empty(16 * num_words + MAX_LENGTH, np.uint8)
        ids = np.empty(8 * num_words + MAX_LENGTH, np.int32)
        return cls(empty_slots(num_words), rows, word_bytes, ids, np.zeros(3, np.int64))


@kernel
def _empty(cache: WordCache) -> None:
    """Remove all words."""
    for slot in range(len(cache.slots)):
        cache.slots[slot] = -1
    cache.used[WORDS] = 0
    cache.used[BYTES] = 0
    cache.used[IDS] = 0


@kernel
def find_word(cache: WordCache, text: NDArray[np.uint8], start: int, end: int, word_hash: int) -> int:
    """Return the row of the word text[start:end], or -1 if it is not cached."""
    table = WordTable(cache.slots, cache.rows, cache.word_bytes)
    return int(cache.slots[word_slot(table, text, start, end, word_hash)])


@kernel
def cache_word(
    cache: WordCache, text: NDArray[np.uint8], start: int, end: int, word_hash: int, tokens: Ids, num_tokens: int
) -> None:
    """Add the word text[start:end] and its tokens, tokens[:num_tokens]; a full cache is emptied first.

    The word must not be cached yet and must have at most MAX_LENGTH bytes, which is not checked. `word_hash` is its
    `hash_of`.
    """
    table, used = WordTable(cache.slots, cache.rows, cache.word_bytes), cache.used
    full = used[WORDS] == len(table.rows) or used[BYTES] + MAX_LENGTH > len(table.word_bytes)
    if full or used[IDS] + MAX_LENGTH > len(cache.ids):
        _empty(cache)
    row, first_byte, first_id = used[WORDS], used[BYTES], used[IDS]
    table.slots[word_slot(table, text, start, end, word_hash)] = row
    table.rows[row, START] = first_byte
    table.rows[row, LENGTH] = end - start
    table.rows[row, HASH] = word_hash
    table.rows[row, FIRST] = first_id
    table.rows[row, NUMBER] = num_tokens
    for i in range(end - start):
        table.word_bytes[first_byte + i] = text[start + i]
    for i in range(num_tokens):
        cache.ids[first_id + i] = tokens[i]
    used[WORDS] += 1
    used[BYTES] += end - start
    used[IDS] += num_tokens
