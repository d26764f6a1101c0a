"""The different words of a text with their counts, in arrays: all that training needs, within a fixed amount of memory.

When even the different words need too much memory, the rarest are removed and counting goes on. A frequent word soon
returns to the table; a rare word would have decided no merge.
Source: Manku and Motwani, "Approximate Frequency Counts over Data Streams" (2002).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenizer.jit import kernel
from tokenizer.structures.hash_table import HASH, LENGTH, START, Rows, WordTable, empty_slots, insert_words, word_slot


@dataclass(frozen=True)
class WordCounts:
    """Different words, and how often each occurs."""

    word_bytes: NDArray[np.uint8]  # the words in UTF-8, one after the other
    lengths: NDArray[np.int64]  # (words,), in bytes
    counts: NDArray[np.int64]  # (words,)

    @classmethod
    def of(cls, words: Mapping[bytes, int]) -> WordCounts:
        """Convert a mapping from words to counts into arrays."""
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        counts = np.fromiter(words.values(), np.int64, len(words))
        return cls(np.frombuffer(b"".join(words), np.uint8), lengths, counts)

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Yield each word with its count.

        >>> dict(WordCounts.of({b"to": 2, b" be": 1}).items())
        {b'to': 2, b' be': 1}
        """
        text, start = self.word_bytes.tobytes(), 0
        for length, count in zip(self.lengths.tolist(), self.counts.tolist(), strict=True):
            yield text[start : start + length], count
            start += length


COUNT = 3  # the column of a word table after START, LENGTH and HASH
NUM_COLUMNS = 4


@kernel
def _add_chunk(
    table: WordTable, num_rows: int, num_bytes: int, text: NDArray[np.uint8], chunk: Rows
) -> tuple[int, int]:
    """Add the counts of one chunk's words, which are in `text`; return how many words and bytes the table now has."""
    rows = table.rows
    for word in range(len(chunk)):
        start, length = chunk[word, START], chunk[word, LENGTH]
        slot = word_slot(table, text, start, start + length, chunk[word, HASH])
        if table.slots[slot] >= 0:
            rows[table.slots[slot], COUNT] += chunk[word, COUNT]
        else:
            table.slots[slot] = num_rows
            rows[num_rows, START] = num_bytes
            rows[num_rows, LENGTH] = length
            rows[num_rows, HASH] = chunk[word, HASH]
            rows[num_rows, COUNT] = chunk[word, COUNT]
            for i in range(length):
                table.word_bytes[num_bytes + i] = text[start + i]
            num_rows += 1
            num_bytes += length
    return num_rows, num_bytes


class WordTotals:
    """The words of all chunks so far, and their counts."""

    def __init__(self, max_bytes: int) -> None:
        """Keep words of at most `max_bytes` bytes together."""
        self._max_bytes = max_bytes
        capacity = 1 << 12
        self._table = WordTable(
            empty_slots(capacity), np.empty((capacity, NUM_COLUMNS), np.int64), np.empty(1 << 16, np.uint8)
        )
        self._num_rows = self._num_bytes = 0
        self.removed = 0  # words with this count or less may have been removed
        self.longest = 0  # bytes of the longest word so far

    def add(self, text: NDArray[np.uint8], chunk: Rows) -> None:
        """Add the words of a chunk: rows of a word table whose words are in `text`."""
        self.longest = max(self.longest, int(chunk[:, LENGTH].max(initial=0)))
        self._grow(self._num_rows + len(chunk), self._num_bytes + int(chunk[:, LENGTH].sum()))
        self._num_rows, self._num_bytes = _add_chunk(self._table, self._num_rows, self._num_bytes, text, chunk)
        if self._num_bytes > self._max_bytes:
            self._remove_rarest()

    def words(self) -> WordCounts:
        """Return the words and their counts, in the order of first appearance."""
        rows = self._table.rows[: self._num_rows]
        return WordCounts(self._table.word_bytes[: self._num_bytes], rows[:, LENGTH].copy(), rows[:, COUNT].copy())

    def _grow(self, num_rows: int, num_bytes: int) -> None:
        """Make space for this many rows and bytes."""
        table = self._table
        if num_rows > len(table.rows):
            rows = np.empty((num_rows + len(table.rows) // 2, NUM_COLUMNS), np.int64)
            rows[: self._num_rows] = table.rows[: self._num_rows]
            self._replace_rows(rows)
        if num_bytes > len(table.word_bytes):
            word_bytes = np.empty(num_bytes + len(table.word_bytes) // 2, np.uint8)
            word_bytes[: self._num_bytes] = table.word_bytes[: self._num_bytes]
            self._table = self._table._replace(word_bytes=word_bytes)

    def _replace_rows(self, rows: Rows) -> None:
        """Use these rows from now on, with new slots."""
        self._table = self._table._replace(rows=rows, slots=empty_slots(len(rows)))
        insert_words(self._table, self._num_rows)

    def _remove_rarest(self) -> None:
        """Keep the most frequent words, at most half of `max_bytes`; of words with equal counts, all or none."""
        words = self.words()
        ascending = np.argsort(words.counts)
        # For each word, the bytes that are left if it and all rarer words are removed.
        left = self._num_bytes - words.lengths[ascending].cumsum()
        self.removed = int(words.counts[ascending[np.argmax(left <= self._max_bytes // 2)]])
        kept = words.counts > self.removed
        word_bytes = words.word_bytes[np.repeat(kept, words.lengths)]
        self._num_rows, self._num_bytes = int(kept.sum()), len(word_bytes)
        self._table.word_bytes[: len(word_bytes)] = word_bytes
        rows = self._table.rows[: len(kept)][kept]
        rows[:, START] = rows[:, LENGTH].cumsum() - rows[:, LENGTH]
        self._replace_rows(rows)
