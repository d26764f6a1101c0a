"""Encoding a word: of all pairs that have a merge, do the one learned first, until none is left.

Rescanning the word after each merge would take quadratic time, and a word can be a whole document. So the
tokens of a word are a linked list, and the pairs that can be merged wait in a heap, ordered by rank (when the
merge was learned), then by place (from left to right). A merge changes only the pairs on its two sides.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from tokenizer.alphabet import utf8
from tokenizer.heap import Heap, drop_smallest, rise
from tokenizer.kernels import kernel
from tokenizer.split import compiled
from tokenizer.vocabulary import Vocabulary

Integers = NDArray[np.int64]

CACHE_LIMIT = 2_000_000
"""The known words are forgotten when they hold more token ids than this, some 100 MB."""


@kernel
def _rank_of(left: int, right: int, pairs: Integers, ranks: Integers) -> int:
    """Return the rank of a pair, or -1 if it has no merge; `pairs` is sorted."""
    pair = (left << 32) | right
    low, high = 0, len(pairs)
    while low < high:
        middle = (low + high) // 2
        if pairs[middle] < pair:
            low = middle + 1
        else:
            high = middle
    return ranks[low] if low < len(pairs) and pairs[low] == pair else -1


@kernel
def _await(
    tokens: Integers,
    after: Integers,
    awaited: Integers,
    place: int,
    pairs: Integers,
    ranks: Integers,
    heap: Heap,
    size: int,
) -> int:
    """Note the rank of the pair that begins at `place`, put it into the heap, return the heap's new size."""
    awaited[place] = -1
    if after[place] < len(tokens):
        awaited[place] = _rank_of(tokens[place], tokens[after[place]], pairs, ranks)
    if awaited[place] >= 0:
        heap[size, 0] = awaited[place]
        heap[size, 1] = place
        rise(heap, size)
        size += 1
    return size


@kernel
def _merge_word(
    tokens: Integers,
    before: Integers,
    after: Integers,
    awaited: Integers,
    heap: Heap,
    pairs: Integers,
    ranks: Integers,
    results: Integers,
) -> int:
    """Merge the tokens of one word in place; return how many are left."""
    size = 0
    for place in range(len(tokens)):
        before[place] = place - 1
        after[place] = place + 1
        size = _await(tokens, after, awaited, place, pairs, ranks, heap, size)
    while size > 0:
        rank, place = heap[0, 0], heap[0, 1]
        size = drop_smallest(heap, size)
        if awaited[place] != rank:
            continue  # a neighbouring merge took one of the two tokens; the pair is gone
        partner = after[place]
        awaited[partner] = -1
        tokens[place] = results[rank]
        after[place] = after[partner]
        if after[place] < len(tokens):
            before[after[place]] = place
        size = _await(tokens, after, awaited, place, pairs, ranks, heap, size)
        if before[place] >= 0:
            size = _await(tokens, after, awaited, before[place], pairs, ranks, heap, size)
    left, place = 0, 0
    while place < len(tokens):
        tokens[left] = tokens[place]
        left += 1
        place = after[place]
    return left


@kernel
def _merge_words(
    tokens: Integers, starts: Integers, lengths: Integers, pairs: Integers, ranks: Integers, results: Integers
) -> None:
    """Merge each word; word i is tokens[starts[i]:starts[i + 1]], and lengths[i] tokens of it remain."""
    longest = 0
    for word in range(len(lengths)):
        longest = max(longest, starts[word + 1] - starts[word])
    before = np.empty(longest, np.int64)
    after = np.empty(longest, np.int64)
    awaited = np.empty(longest, np.int64)
    heap = np.empty((2 * longest, 2), np.int64)  # a word of n bytes has n - 1 pairs, and each merge adds one at most
    for word in range(len(lengths)):
        part = tokens[starts[word] : starts[word + 1]]
        lengths[word] = _merge_word(part, before, after, awaited, heap, pairs, ranks, results)


class Encoder:
    """Turns text into token ids and remembers every word it has met: a text repeats its words."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Lay the merges out for the kernels."""
        ids = vocabulary.ids
        ranks = {(ids[left] << 32) | ids[right]: rank for rank, (left, right) in enumerate(vocabulary.merges)}
        self._split = compiled(vocabulary.split)
        self._pairs = np.array(sorted(ranks), np.int64)
        self._ranks = np.array([ranks[pair] for pair in sorted(ranks)], np.int64)
        self._results = np.array([ids[left + right] for left, right in vocabulary.merges], np.int64)
        self._byte_ids = np.array([ids[bytes([byte])] for byte in range(256)], np.int64)
        self._known: dict[str, list[int]] = {}
        self._num_known = 0  # token ids in _known

    def encode(self, text: str) -> Iterable[int]:
        """Return the ids of a text without special tokens; raises TokenizerError for a lone surrogate."""
        words = self._split.findall(text)
        if self._num_known > CACHE_LIMIT:
            self._known, self._num_known = {}, 0
        known = self._known
        if unknown := [word for word in dict.fromkeys(words) if word not in known]:
            self._learn(unknown)
        return chain.from_iterable([known[word] for word in words])

    def _learn(self, words: list[str]) -> None:
        spelled = [utf8(word) for word in words]
        starts = np.array([0, *accumulate(map(len, spelled))], np.int64)
        tokens = self._byte_ids[np.frombuffer(b"".join(spelled), np.uint8)]
        lengths = np.empty(len(words), np.int64)
        _merge_words(tokens, starts, lengths, self._pairs, self._ranks, self._results)
        for word, start, length in zip(words, starts.tolist(), lengths.tolist(), strict=False):
            self._known[word] = tokens[start : start + length].tolist()
        self._num_known += int(lengths.sum())
