"""Counting words: training sees nothing else of the text.

A text repeats its words, so a gigabyte of text becomes some megabytes of different words with their counts. Each chunk
of text is counted by itself, on any free thread; then its counts are added to those of all chunks.

When even the different words need too much memory, the rarest are removed and counting goes on. A frequent word soon
returns to the table; a rare word would have decided no merge.
Source: Manku and Motwani, "Approximate Frequency Counts over Data Streams" (2002).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tokenizer.errors import TokenizerError
from tokenizer.jit import kernel
from tokenizer.structures.hash_table import (
    HASH,
    LENGTH,
    START,
    Rows,
    WordTable,
    empty_slots,
    hash_of,
    insert_words,
    word_slot,
)
from tokenizer.text.added_tokens import special_pattern
from tokenizer.text.chunks import Chunk, chunks, map_in_order, num_threads
from tokenizer.text.split import Layout, Scanner
from tokenizer.text.word_rules import ONE_WORD, Bytes, Classes, word_end

MIN_MEMORY, DEFAULT_MEMORY = 1 << 26, 1 << 30
MEMORY_PER_BYTE = 128  # bytes that one byte of a different word takes here and in trainer.py, which checks it again
COUNT, NUM_COLUMNS = 3, 4  # the column of a word table after START, LENGTH and HASH


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


@kernel
def _count_chunk(
    table: WordTable, num_rows: int, stops: NDArray[np.int64], start: int, rule: int, classes: Classes
) -> tuple[int, int]:
    """Count the words of a text from byte `start` on, until the rows are full; return where, and the number of rows.

    The text is the table's own `word_bytes`.
    """
    text, rows = table.word_bytes, table.rows
    for stop in stops:
        while start < stop:
            if num_rows == len(rows):
                return start, num_rows
            end = word_end(text, start, stop, rule, classes)
            word_hash = hash_of(text, start, end)
            slot = word_slot(table, text, start, end, word_hash)
            if table.slots[slot] >= 0:
                rows[table.slots[slot], COUNT] += 1
            else:
                table.slots[slot] = num_rows
                rows[num_rows, START] = start
                rows[num_rows, LENGTH] = end - start
                rows[num_rows, HASH] = word_hash
                rows[num_rows, COUNT] = 1
                num_rows += 1
            start = end
    return start, num_rows


def _count(layout: Layout, scanner: Scanner) -> Rows:
    """Return a row for each different word, in the order of first appearance; the table grows as needed."""
    start, num_rows, capacity = 0, 0, 1 << 11
    rows = np.empty((0, NUM_COLUMNS), np.int64)
    while start < len(layout.text):
        rows = np.concatenate([rows, np.empty((capacity - num_rows, NUM_COLUMNS), np.int64)])
        table = WordTable(empty_slots(capacity), rows, layout.text)
        insert_words(table, num_rows)
        start, num_rows = _count_chunk(table, num_rows, layout.stops, start, scanner.rule, scanner.classes)
        capacity *= 2
    return rows[:num_rows]


@kernel
def _add_chunk(table: WordTable, num_rows: int, num_bytes: int, text: Bytes, chunk: Rows) -> tuple[int, int]:
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
    """The words of all chunks so far, of at most `max_bytes` bytes together, and their counts."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        rows, word_bytes = np.empty((1 << 12, NUM_COLUMNS), np.int64), np.empty(1 << 16, np.uint8)
        self._table = WordTable(empty_slots(len(rows)), rows, word_bytes)
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
        _, rows, word_bytes = self._table
        if num_rows > len(rows):
            self._replace_rows(np.concatenate([rows, np.empty((num_rows - len(rows) // 2, NUM_COLUMNS), np.int64)]))
        if num_bytes > len(word_bytes):
            more = np.empty(num_bytes - len(word_bytes) // 2, np.uint8)
            self._table = self._table._replace(word_bytes=np.concatenate([word_bytes, more]))

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
        rarest = int(words.counts[ascending[np.argmax(left <= self._max_bytes // 2)]])
        self.removed, kept = max(self.removed, rarest), words.counts > rarest
        word_bytes = words.word_bytes[np.repeat(kept, words.lengths)]
        self._num_rows, self._num_bytes = int(kept.sum()), len(word_bytes)
        self._table.word_bytes[: len(word_bytes)] = word_bytes
        rows = self._table.rows[: len(kept)][kept]
        rows[:, START] = rows[:, LENGTH].cumsum() - rows[:, LENGTH]
        self._replace_rows(rows)


def count_words(
    texts: Iterable[str],
    split: str,
    specials: Iterable[str] = (),
    *,
    threads: int | None = None,
    max_memory: int = DEFAULT_MEMORY,
    progress: bool = False,
) -> WordCounts:
    """Count each different word of the texts; the result is the same with any number of threads.

    Special tokens in a text are borders and are not counted, so no learned token ever contains one. If the different
    words need more than `max_memory` bytes, the rarest are removed, and a warning says how rare they were.
    Raises TokenizerError if `texts` is not an iterable of str, for an unknown split, or for too little memory.

    >>> sorted(count_words(["to be or not to be"], "gpt2").items())
    [(b' be', 2), (b' not', 1), (b' or', 1), (b' to', 1), (b'to', 1)]
    """
    if max_memory < MIN_MEMORY:
        raise TokenizerError(f"max_memory={max_memory:,} bytes is too little: give {MIN_MEMORY:,} or more.")
    scanner, totals = Scanner(split), WordTotals(max_memory // MEMORY_PER_BYTE)

    def count(chunk: Chunk) -> tuple[Bytes, Rows]:
        layout = scanner.lay_out(chunk.parts)
        return layout.text, _count(layout, scanner)

    parts = chunks(_without_specials(texts, list(specials)), may_cut=scanner.rule != ONE_WORD)
    # disable=None: a bar on a terminal, nothing in a file or a pipe.
    with tqdm(desc="counting words", unit=" bytes", unit_scale=True, disable=None if progress else True) as bar:
        for text, rows in map_in_order(count, parts, num_threads(threads)):
            totals.add(text, rows)
            bar.update(len(text))
    words = totals.words()
    if totals.removed:
        full = f"the different words do not fit into max_memory={max_memory:,} bytes"
        removed = f"words seen {totals.removed:,} times or less were removed while counting"
        if len(words.counts) == 0:
            raise TokenizerError(
                f"{full}, the longest has {totals.longest:,} bytes: {removed}, and none is left; divide such a word by "
                "spaces, give more memory, or a split that makes shorter words."
            )
        warnings.warn(f"{full}: {removed}.", stacklevel=3)
    return words


def _without_specials(texts: Iterable[str], specials: list[str]) -> Iterable[str]:
    """Return the parts of the texts between special tokens."""
    if isinstance(texts, str):
        return texts  # `chunks` refuses it, like anything else that is not an iterable of str
    pattern = special_pattern(specials)

    def parts() -> Iterator[str]:
        for text in texts:
            # A search for each name is far faster than a split, and most texts have none.
            if isinstance(text, str) and any(name in text for name in specials):
                yield from pattern.split(text)[::2]
            else:
                yield text

    return parts()
