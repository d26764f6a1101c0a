"""Encoding a text: split it into words, and write the tokens of each word.

Each thread has a word cache and a workspace of its own, so the loops run without Python's lock.

Some tokenizers have words that are tokens although no merge makes them: Llama 3's `ignore_merges`, and every tokenizer
of tiktoken. Their rule is: a word that is a token becomes this token at once, and only other words are merged. The rule
changes few tokens, because merging the bytes of a token nearly always gives that token. These exceptions are found when
a tokenizer is made; without any, the plain encoder is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer.encode.merging import Ids, Workspace, merge_table, merge_word
from tokenizer.jit import kernel
from tokenizer.structures.hash_table import (
    HASH,
    LENGTH,
    START,
    NumberTable,
    Rows,
    Slots,
    WordTable,
    empty_slots,
    hash_of,
    word_slot,
)
from tokenizer.text.chunks import Chunk, chunks, map_in_order, num_threads
from tokenizer.text.split import Scanner, compiled, words_of
from tokenizer.text.word_rules import ONE_WORD, Bytes, Classes, word_end
from tokenizer.vocabulary import Vocabulary

MAX_LENGTH = 64  # bytes; a longer word rarely occurs again and is not cached
FIRST, NUMBER = 3, 4  # the columns of a cached word after HASH: its tokens are ids[FIRST : FIRST + NUMBER]
NUM_COLUMNS = 5
WORDS, BYTES, IDS = range(3)  # what `used` counts
CACHED_WORDS = 1 << 16  # some 6 MB with their bytes and tokens
POSITION, NUM_IDS = range(2)  # the rows of `borders`
NEXT_BYTE, NEXT_BORDER, IDS_SO_FAR = range(3)  # the entries of `progress`


class WordCache(NamedTuple):
    """Words that were encoded before, and their tokens: a text repeats its words, and a lookup is faster than merging.

    These are a word table, whose arrays are fields of the cache because Numba takes longer to pass a tuple inside a
    tuple, and the ids that its rows refer to. When the cache is full, it is emptied and fills again.
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
        table.slots[:] = -1
        used[:] = 0
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


class Rules(NamedTuple):
    """What decides the tokens of a text."""

    split: int  # one of word_rules.RULES
    classes: Classes
    byte_ids: Ids  # (256,): the token of each byte
    merge_slots: Slots  # the table of merges
    merge_rows: Rows


@kernel
def _encode(
    text: Bytes,
    borders: NDArray[np.int64],
    rules: Rules,
    cache: WordCache,
    work: Workspace,
    ids: Ids,
    progress: NDArray[np.int64],
) -> int:
    """Write the tokens of all words to `ids`, and the number of ids before each border; return 0.

    No word crosses a border; their array is (2, borders). If a word is too long for the workspace, return its length;
    a second call with a larger workspace continues there.
    """
    merges = NumberTable(rules.merge_slots, rules.merge_rows)
    start, num_ids = progress[NEXT_BYTE], progress[IDS_SO_FAR]
    for i in range(progress[NEXT_BORDER], borders.shape[1]):
        stop = borders[POSITION, i]
        while start < stop:
            end = word_end(text, start, stop, rules.split, rules.classes)
            length = end - start
            word_hash = hash_of(text, start, end) if length <= MAX_LENGTH else 0
            row = find_word(cache, text, start, end, word_hash) if length <= MAX_LENGTH else -1
            if row >= 0:
                first, number = cache.rows[row, FIRST], cache.rows[row, NUMBER]
                for k in range(number):
                    ids[num_ids + k] = cache.ids[first + k]
            else:
                if length > len(work.tokens):
                    progress[NEXT_BYTE], progress[NEXT_BORDER], progress[IDS_SO_FAR] = start, i, num_ids
                    return length
                for k in range(length):
                    work.tokens[k] = rules.byte_ids[text[start + k]]
                number = merge_word(work, length, merges)
                for k in range(number):
                    ids[num_ids + k] = work.tokens[k]
                if length <= MAX_LENGTH:
                    cache_word(cache, text, start, end, word_hash, work.tokens, number)
            num_ids += number
            start = end
        borders[NUM_IDS, i] = num_ids
    return 0


class Encoder:
    """Encodes text with a vocabulary; special tokens in the text are ordinary characters."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        ids = vocabulary.ids
        merges = merge_table((ids[left], ids[right], ids[left + right]) for left, right in vocabulary.merges)
        byte_ids = np.array([ids[bytes([byte])] for byte in range(256)], np.int32)
        self._scanner = Scanner(vocabulary.split)
        self._rules = Rules(self._scanner.rule, self._scanner.classes, byte_ids, merges.slots, merges.rows)
        self.may_cut = self._scanner.rule != ONE_WORD  # whether a cut at a border of text/chunks.py changes no word
        self._idle: list[tuple[WordCache, Workspace]] = []  # not in use by a thread

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; raises TokenizerError for a lone surrogate."""
        found: list[int] = []
        for chunk in chunks([text], may_cut=self.may_cut):
            for ids in self._encode_chunk(chunk):
                found += ids.tolist()
        return found

    def encode_batch(self, texts: Iterable[str], threads: int | None = None) -> list[Ids]:
        """Return the ids of each text; the same with any number of threads."""
        found: list[list[Ids]] = []

        def encode(chunk: Chunk) -> zip[tuple[int, Ids]]:
            return zip(chunk.owners, self._encode_chunk(chunk), strict=True)

        for parts in map_in_order(encode, chunks(texts, may_cut=self.may_cut), num_threads(threads)):
            for owner, ids in parts:
                if owner == len(found):
                    found.append([])
                found[owner].append(ids)
        return [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in found]

    def _encode_chunk(self, chunk: Chunk) -> list[Ids]:
        """Return the ids of each part of a chunk."""
        layout = self._scanner.lay_out(chunk.parts)
        ids = np.empty(len(layout.text), np.int32)
        borders = np.zeros((2, len(layout.stops) + 1), np.int64)  # the first is the beginning of the text
        borders[POSITION, 1:] = layout.stops
        progress = np.zeros(3, np.int64)
        # pop and append are atomic, so no two threads get the same cache.
        cache, work = self._idle.pop() if self._idle else (WordCache.of(CACHED_WORDS), Workspace.of(256))
        larger = work
        while needed := _encode(layout.text, borders, self._rules, cache, larger, ids, progress):
            larger = Workspace.of(2 * needed)
        self._idle.append((cache, work))
        ends = [0, *borders[NUM_IDS][layout.num_stops].tolist()]
        if 2 * ends[-1] < len(ids):
            ids = ids[: ends[-1]].copy()  # slices would keep the whole array in memory
        return [ids[start:end] for start, end in pairwise(ends)]


class WholeWordEncoder:
    """Encodes word by word; words whose token no merges make are looked up."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._split = compiled(vocabulary.split)
        self._merging = Encoder(replace(vocabulary, split="none", whole_words=False))
        decoded = ((token.decode("utf-8", "ignore"), token, number) for token, number in vocabulary.ids.items())
        # A token that is not UTF-8 is never a word of a text.
        words = {word: number for word, token, number in decoded if word.encode() == token}
        merged = zip(words.items(), self._merging.encode_batch(words), strict=True)
        self.unreached = {word: number for (word, number), ids in merged if ids.tolist() != [number]}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; raises TokenizerError for a lone surrogate."""
        words = words_of(text, self._split)
        different = list(dict.fromkeys(words))
        merged = dict(zip(different, self._merging.encode_batch(different), strict=True))
        ids = {word: [self.unreached[word]] if word in self.unreached else merged[word].tolist() for word in different}
        return [number for word in words for number in ids[word]]


def encoder_of(vocabulary: Vocabulary) -> Encoder | WholeWordEncoder:
    """Return the encoder that a vocabulary needs: the plain one unless `whole_words` changes some encoding."""
    if vocabulary.whole_words:
        encoder = WholeWordEncoder(vocabulary)
        if encoder.unreached:
            return encoder
    return Encoder(vocabulary)
