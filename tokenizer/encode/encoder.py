"""Encoding a text: cut it into words, and write down the tokens of each.

A text repeats its words. So the tokens of a word are remembered, and most words only have to be found again. Each
thread has a memory of its own: the loops then run without Python's lock, and never wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer.encode.merging import Desk, Ids, Merges, merge_word
from tokenizer.jit import kernel
from tokenizer.structures.hash_table import HASH, LENGTH, START, Rows, Slots, free_slots, hash_of, word_slot
from tokenizer.text.chunks import Lot, in_order, lots, num_threads
from tokenizer.text.scanner import WHOLE, Bytes, Classes, Scanner, word_end
from tokenizer.vocabulary import Vocabulary

MEMORY = 1 << 16  # words; some 6 MB with their letters and tokens
LONGEST = 64  # bytes; longer words hardly ever come again and are not remembered
FIRST, NUMBER = 3, 4  # the last columns of a remembered word: its first token's place in `ids`, and how many it has
TEXT, PIECE, OUT, WORDS, LETTERS, IDS = range(6)  # how far `_encode` has come, and how full its memory is: its `state`


class Memory(NamedTuple):
    """Words and their tokens, as far as they are known."""

    slots: Slots
    rows: Rows
    letters: Bytes
    ids: Ids

    @classmethod
    def of(cls, num_words: int) -> Memory:
        """Make room for so many words of average length."""
        letters, ids = np.empty(16 * num_words + LONGEST, np.uint8), np.empty(8 * num_words + LONGEST, np.int32)
        return cls(free_slots(num_words), np.empty((num_words, 5), np.int64), letters, ids)


@kernel
def _forget(memory: Memory, state: NDArray[np.int64]) -> None:
    for slot in range(len(memory.slots)):
        memory.slots[slot] = -1
    state[WORDS] = 0
    state[LETTERS] = 0
    state[IDS] = 0


@kernel
def _remember(
    memory: Memory, state: NDArray[np.int64], text: Bytes, start: int, end: int, code: int, tokens: Ids, num_tokens: int
) -> None:
    """Remember the tokens of the word text[start:end]; where there is no room left, forget all others first."""
    full = state[WORDS] == len(memory.rows) or state[LETTERS] + LONGEST > len(memory.letters)
    if full or state[IDS] + LONGEST > len(memory.ids):
        _forget(memory, state)
    row, first_letter, first_id = state[WORDS], state[LETTERS], state[IDS]
    memory.slots[word_slot(memory.slots, memory.rows, memory.letters, text, start, end, code)] = row
    memory.rows[row, START] = first_letter
    memory.rows[row, LENGTH] = end - start
    memory.rows[row, HASH] = code
    memory.rows[row, FIRST] = first_id
    memory.rows[row, NUMBER] = num_tokens
    for i in range(end - start):
        memory.letters[first_letter + i] = text[start + i]
    for i in range(num_tokens):
        memory.ids[first_id + i] = tokens[i]
    state[WORDS] += 1
    state[LETTERS] += end - start
    state[IDS] += num_tokens


@kernel
def _encode(
    text: Bytes,
    stops: NDArray[np.int64],
    rule: int,
    kinds: Classes,
    byte_ids: Ids,
    merges: Merges,
    memory: Memory,
    desk: Desk,
    state: NDArray[np.int64],
    out: Ids,
    ends: NDArray[np.int64],
) -> int:
    """Write the tokens of all words to `out`, and to `ends` how many there are up to each stop; return 0.

    Or return the length of a word that is too long for the desk; calling again with a larger one goes on from there.
    """
    start, num_out = state[TEXT], state[OUT]
    for piece in range(state[PIECE], len(stops)):
        stop = stops[piece]
        while start < stop:
            end = word_end(text, start, stop, rule, kinds)
            code = hash_of(text, start, end) if end - start <= LONGEST else 0
            row = -1
            if end - start <= LONGEST:
                row = memory.slots[word_slot(memory.slots, memory.rows, memory.letters, text, start, end, code)]
            if row >= 0:
                first, number = memory.rows[row, FIRST], memory.rows[row, NUMBER]
                for i in range(number):
                    out[num_out + i] = memory.ids[first + i]
            else:
                if end - start > len(desk.tokens):
                    state[TEXT], state[PIECE], state[OUT] = start, piece, num_out
                    return end - start
                for i in range(end - start):
                    desk.tokens[i] = byte_ids[text[start + i]]
                number = merge_word(desk, end - start, merges)
                for i in range(number):
                    out[num_out + i] = desk.tokens[i]
                if end - start <= LONGEST:
                    _remember(memory, state, text, start, end, code, desk.tokens, number)
            num_out += number
            start = end
        ends[piece] = num_out
    return 0


class Encoder:
    """Turns text into token ids."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Lay the merges out for the kernels."""
        ids = vocabulary.ids
        pairs = [(ids[left], ids[right]) for left, right in vocabulary.merges]
        self._merges = Merges.of(pairs, [ids[left + right] for left, right in vocabulary.merges])
        self._byte_ids = np.array([ids[bytes([byte])] for byte in range(256)], np.int32)
        self._scanner = Scanner(vocabulary.split)
        self._idle: list[tuple[Memory, Desk, NDArray[np.int64]]] = []  # what no thread is using

    @property
    def may_cut(self) -> bool:
        """Whether the words of a text do not change if it is cut at a border of lots.py."""
        return self._scanner.rule != WHOLE

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text without special tokens; raises TokenizerError for a lone surrogate."""
        found: list[int] = []
        for lot in lots([text], may_cut=self.may_cut):
            for ids in self._encode_lot(lot):
                found += ids.tolist()
        return found

    def encode_batch(self, texts: Iterable[str], threads: int | None = None) -> list[Ids]:
        """Return the ids of each text; the same with any number of threads."""
        found: list[list[Ids]] = []

        def encode(lot: Lot) -> tuple[Lot, list[Ids]]:
            return lot, self._encode_lot(lot)

        for lot, pieces in in_order(encode, lots(texts, may_cut=self.may_cut), num_threads(threads)):
            for owner, ids in zip(lot.owners, pieces, strict=True):
                if owner == len(found):
                    found.append([])
                found[owner].append(ids)
        return [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in found]

    def _encode_lot(self, lot: Lot) -> list[Ids]:
        """Return the ids of each piece."""
        layout = self._scanner.lay_out(lot.pieces)
        out = np.empty(len(layout.text), np.int32)
        ends = np.zeros(len(layout.stops) + 1, np.int64)
        # pop and append are one step each, so no two threads can get the same memory.
        memory, desk, state = (
            self._idle.pop() if self._idle else (Memory.of(MEMORY), Desk.of(256), np.zeros(6, np.int64))
        )
        state[: OUT + 1] = 0
        larger = desk
        while needed := _encode(
            layout.text, layout.stops, self._scanner.rule, self._scanner.classes, self._byte_ids, self._merges, memory,
            larger, state, out, ends[1:],
        ):  # fmt: skip
            larger = Desk.of(2 * needed)
        self._idle.append((memory, desk, state))
        borders = [0, *ends[layout.last].tolist()]
        if 2 * borders[-1] < len(out):
            out = out[: borders[-1]].copy()  # the rest of the room would live as long as the ids
        return [out[start:end] for start, end in pairwise(borders)]
