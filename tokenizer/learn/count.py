"""Counting words: training sees nothing else of the text.

A text repeats its words, so a gigabyte of text becomes some megabytes of different words with their counts. Each chunk
of text is counted by itself, on any free thread; then its counts are added to those of all chunks.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tokenizer.errors import TokenizerError
from tokenizer.jit import kernel
from tokenizer.learn.word_counts import COUNT, NUM_COLUMNS, WordCounts, WordTotals
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
from tokenizer.text.scanner import Layout, Scanner
from tokenizer.text.word_rules import ONE_WORD, Bytes, Classes, word_end

MIN_MEMORY = 1 << 26
DEFAULT_MEMORY = 1 << 30
MEMORY_PER_BYTE = 128
"""An upper bound on the memory, in bytes, that one byte of a different word takes, here and in trainer.py."""


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
        raise TokenizerError(
            f"max_memory={max_memory:,} bytes is too little to work with: give {MIN_MEMORY:,} or more."
        )
    scanner, totals = Scanner(split), WordTotals(max_memory // MEMORY_PER_BYTE)

    def count(chunk: Chunk) -> tuple[Bytes, Rows]:
        layout = scanner.lay_out(chunk.parts)
        return layout.text, _count(layout, scanner)

    # disable=None: a bar on a terminal, nothing in a file or a pipe.
    bar = tqdm(desc="counting words", unit=" bytes", unit_scale=True, disable=None if progress else True)
    parts = _without_specials(texts, list(specials))
    with bar:
        for text, rows in map_in_order(count, chunks(parts, may_cut=scanner.rule != ONE_WORD), num_threads(threads)):
            totals.add(text, rows)
            bar.update(len(text))
    words = totals.words()
    if totals.removed:
        removed = f"words seen {totals.removed:,} times or less were removed while counting"
        if len(words.counts) == 0:
            raise TokenizerError(
                f"the different words do not fit into max_memory={max_memory:,} bytes, the longest has "
                f"{totals.longest:,} bytes: {removed}, and none is left; divide such a word by spaces, give more "
                "memory, or a split that makes shorter words."
            )
        warnings.warn(f"the different words do not fit into max_memory={max_memory:,} bytes: {removed}.", stacklevel=3)
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
