"""Counting words: all that training ever looks at.

A text repeats its words, so a gigabyte of it shrinks to some megabytes of different words with their counts. Each lot
of text is counted by itself, by whichever thread is free, and added to the one table of all words.

Where even the different words are too many for the memory, the rarest are forgotten and counting goes on: a word that
is frequent soon comes back, a word that is rare would not have decided any merge.
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
from tokenizer.structures.hash_table import HASH, LENGTH, START, Rows, Slots, free_slots, hash_of, seat_words, word_slot
from tokenizer.text.chunks import Lot, in_order, lots, num_threads
from tokenizer.text.scanner import WHOLE, Bytes, Classes, Layout, Scanner, word_end
from tokenizer.text.split import special_pattern

COUNT = 3  # the last column of the rows of words

SMALLEST_MEMORY = 1 << 26
LARGEST_MEMORY = 1 << 30
BYTES_PER_LETTER = 128
"""What one letter of a different word takes, here and in trainer.py, on the safe side of what is measured."""


@dataclass(frozen=True)
class WordCounts:
    """Different words, and how often each occurs."""

    letters: Bytes  # the words one behind the other, in UTF-8
    lengths: NDArray[np.int64]  # (words,), in bytes
    counts: NDArray[np.int64]  # (words,)

    @classmethod
    def of(cls, words: Mapping[bytes, int]) -> WordCounts:
        """Write a mapping into arrays."""
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        counts = np.fromiter(words.values(), np.int64, len(words))
        return cls(np.frombuffer(b"".join(words), np.uint8), lengths, counts)

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Go through the words and their counts."""
        text, start = self.letters.tobytes(), 0
        for length, count in zip(self.lengths.tolist(), self.counts.tolist(), strict=True):
            yield text[start : start + length], count
            start += length


@kernel
def _count_lot(
    text: Bytes,
    start: int,
    stops: NDArray[np.int64],
    rule: int,
    kinds: Classes,
    slots: Slots,
    rows: Rows,
    num_rows: int,
) -> tuple[int, int]:
    """Count the words of a lot from byte `start` on, until the rows are full; return where, and their number."""
    for stop in stops:
        while start < stop:
            if num_rows == len(rows):
                return start, num_rows
            end = word_end(text, start, stop, rule, kinds)
            code = hash_of(text, start, end)
            slot = word_slot(slots, rows, text, text, start, end, code)
            if slots[slot] >= 0:
                rows[slots[slot], COUNT] += 1
            else:
                slots[slot] = num_rows
                rows[num_rows, START] = start
                rows[num_rows, LENGTH] = end - start
                rows[num_rows, HASH] = code
                rows[num_rows, COUNT] = 1
                num_rows += 1
            start = end
    return start, num_rows


@kernel
def _add_lot(
    text: Bytes, lot: Rows, num_words: int, slots: Slots, rows: Rows, letters: Bytes, num_rows: int, num_letters: int
) -> tuple[int, int]:
    """Add a lot's counts to those of all lots before; return how many words and letters there are now."""
    for word in range(num_words):
        start, length = lot[word, START], lot[word, LENGTH]
        slot = word_slot(slots, rows, letters, text, start, start + length, lot[word, HASH])
        if slots[slot] >= 0:
            rows[slots[slot], COUNT] += lot[word, COUNT]
        else:
            slots[slot] = num_rows
            rows[num_rows, START] = num_letters
            rows[num_rows, LENGTH] = length
            rows[num_rows, HASH] = lot[word, HASH]
            rows[num_rows, COUNT] = lot[word, COUNT]
            for i in range(length):
                letters[num_letters + i] = text[start + i]
            num_rows += 1
            num_letters += length
    return num_rows, num_letters


def _rows_of(layout: Layout, scanner: Scanner) -> Rows:
    """Return the rows of the different words of a lot, in the order of their first appearance."""
    text, start, num_rows = layout.text, 0, 0
    room = 1 << 11
    rows = np.empty((0, 4), np.int64)
    while start < len(text):
        rows = np.concatenate([rows, np.empty((room - num_rows, 4), np.int64)])
        slots = free_slots(room)
        seat_words(slots, rows, num_rows)
        start, num_rows = _count_lot(text, start, layout.stops, scanner.rule, scanner.classes, slots, rows, num_rows)
        room *= 2
    return rows[:num_rows]


class _Table:
    """All words so far."""

    def __init__(self, most_letters: int) -> None:
        self._most_letters = most_letters
        self._rows = np.empty((1 << 12, 4), np.int64)
        self._slots = free_slots(len(self._rows))
        self._letters = np.empty(1 << 16, np.uint8)
        self._num_rows = self._num_letters = 0
        self.forgotten = 0  # words seen so often, at most, may have been forgotten

    def add(self, text: Bytes, lot: Rows) -> None:
        """Add the counts of a lot."""
        self._make_room(self._num_rows + len(lot), self._num_letters + int(lot[:, LENGTH].sum()))
        self._num_rows, self._num_letters = _add_lot(
            text, lot, len(lot), self._slots, self._rows, self._letters, self._num_rows, self._num_letters
        )
        if self._num_letters > self._most_letters:
            self._forget_rarest()

    def _make_room(self, num_rows: int, num_letters: int) -> None:
        if num_rows > len(self._rows):
            rows = np.empty((num_rows + len(self._rows) // 2, 4), np.int64)
            rows[: self._num_rows] = self._rows[: self._num_rows]
            self._seat(rows)
        if num_letters > len(self._letters):
            letters = np.empty(num_letters + len(self._letters) // 2, np.uint8)
            letters[: self._num_letters] = self._letters[: self._num_letters]
            self._letters = letters

    def _seat(self, rows: Rows) -> None:
        self._rows, self._slots = rows, free_slots(len(rows))
        seat_words(self._slots, rows, self._num_rows)

    def _forget_rarest(self) -> None:
        """Keep the most frequent words, up to half of the letters there may be; equal counts stay or go together."""
        words = self.words()
        rising = np.argsort(words.counts)
        above = self._num_letters - words.lengths[rising].cumsum()  # the letters left without this word and rarer ones
        self.forgotten = int(words.counts[rising[np.argmax(above <= self._most_letters // 2)]])
        kept = words.counts > self.forgotten
        letters = words.letters[np.repeat(kept, words.lengths)]
        self._num_rows, self._num_letters = int(kept.sum()), len(letters)
        self._letters[: len(letters)] = letters
        rows = self._rows[: len(kept)][kept]
        rows[:, START] = rows[:, LENGTH].cumsum() - rows[:, LENGTH]
        self._seat(rows)

    def words(self) -> WordCounts:
        """Return the words and counts so far; they lie in the order of their first appearance."""
        rows = self._rows[: self._num_rows]
        return WordCounts(self._letters[: self._num_letters], rows[:, LENGTH].copy(), rows[:, COUNT].copy())


def count_words(
    texts: Iterable[str],
    split: str,
    specials: Iterable[str] = (),
    *,
    threads: int | None = None,
    max_memory: int = LARGEST_MEMORY,
    progress: bool = False,
) -> WordCounts:
    """Count each different word of the texts; the result is the same with any number of threads.

    Special tokens in a text are borders and are not counted, so no learned token can ever contain one. If the different
    words do not fit into `max_memory` bytes, the rarest are forgotten, and a warning says how rare they were.
    Raises TokenizerError if `texts` is not an iterable of str, for an unknown split, or for too little memory.

    >>> sorted(count_words(["to be or not to be"], "gpt2").items())
    [(b' be', 2), (b' not', 1), (b' or', 1), (b' to', 1), (b'to', 1)]
    """
    if max_memory < SMALLEST_MEMORY:
        raise TokenizerError(
            f"max_memory={max_memory:,} bytes is too little to work with: give {SMALLEST_MEMORY:,} or more."
        )
    scanner, table = Scanner(split), _Table(max_memory // BYTES_PER_LETTER)

    def count(lot: Lot) -> tuple[Bytes, Rows]:
        layout = scanner.lay_out(lot.pieces)
        return layout.text, _rows_of(layout, scanner)

    # disable=None: a bar on a terminal, nothing in a file or a pipe.
    bar = tqdm(desc="counting words", unit=" letters", unit_scale=True, disable=None if progress else True)
    pieces = _without_specials(texts, list(specials))
    with bar:
        for text, rows in in_order(count, lots(pieces, may_cut=scanner.rule != WHOLE), num_threads(threads)):
            table.add(text, rows)
            bar.update(len(text))
    words = table.words()
    if table.forgotten:
        found = f"words seen {table.forgotten:,} times or less were forgotten on the way"
        if len(words.counts) == 0:
            raise TokenizerError(
                f"the different words do not fit into max_memory={max_memory:,} bytes: {found}, and none is left; "
                "give more memory, or a split that makes shorter words."
            )
        warnings.warn(f"the different words do not fit into max_memory={max_memory:,} bytes: {found}.", stacklevel=3)
    return words


def _without_specials(texts: Iterable[str], specials: list[str]) -> Iterable[str]:
    if isinstance(texts, str):
        return texts  # refused later, as whatever else is no iterable of str
    borders = special_pattern(specials)

    def pieces() -> Iterator[str]:
        for text in texts:
            # Looking for each name is far quicker than splitting, and most texts have none.
            if isinstance(text, str) and any(name in text for name in specials):
                yield from borders.split(text)[::2]
            else:
                yield text

    return pieces()
