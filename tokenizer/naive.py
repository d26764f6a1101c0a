"""Byte-pair encoding in its simplest form: the chapter to read first, and the standard that tests hold fast code to.

Training starts with the 256 bytes as tokens. Again and again, the pair of adjacent tokens that occurs most often
becomes a new token. Encoding repeats the same merges, in the same order, on new text. Both scan everything again for
each merge, which is fast enough for a page of text. Four steps lead from here to the fast trainer, all with the same
result:

    learn_from_all          every word of the text
    learn_merges            each different word once, with its count
    learn/incremental.py    no rescanning: a merge updates only the counts that it changes; a heap gives the best pair
    learn/trainer.py        the same in arrays, compiled

Source: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016), algorithm 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

Pair = tuple[int, int]


def learn_from_all(words: Iterable[bytes], num_merges: int, min_frequency: int = 2) -> list[Pair]:
    """Return the pairs that become tokens 256, 257, ..., given all words of a text.

    The pair with the highest count is merged; among equal counts the smaller left token, then the smaller right token
    decides. Learning stops early when no pair occurs `min_frequency` times.

    >>> learn_from_all([b"abab", b"abab", b"ab", b"b"], num_merges=5)
    [(97, 98), (256, 256)]
    """
    tokens = [list(word) for word in words]
    merges: list[Pair] = []
    while len(merges) < num_merges:
        counts = Counter(pair for ids in tokens for pair in pairwise(ids))
        best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if best is None or counts[best] < min_frequency:
            break
        tokens = [merge(ids, best, 256 + len(merges)) for ids in tokens]
        merges.append(best)
    return merges


def learn_merges(words: Mapping[bytes, int], num_merges: int, min_frequency: int = 2) -> list[Pair]:
    """Return what `learn_from_all` returns, given each different word with its count: most words occur many times.

    >>> learn_merges({b"abab": 3, b"ab": 1, b"b": 9}, num_merges=5)
    [(97, 98), (256, 256)]
    """
    tokens = {word: list(word) for word in words}
    merges: list[Pair] = []
    while len(merges) < num_merges:
        counts: Counter[Pair] = Counter()
        for word, ids in tokens.items():
            for pair in pairwise(ids):
                counts[pair] += words[word]
        best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if best is None or counts[best] < min_frequency:
            break
        tokens = {word: merge(ids, best, 256 + len(merges)) for word, ids in tokens.items()}
        merges.append(best)
    return merges


def merge(ids: list[int], pair: Pair, new: int) -> list[int]:
    """Replace each occurrence of the pair by the new token, from left to right.

    >>> merge([7, 7, 7, 5], (7, 7), 9)
    [9, 7, 5]
    """
    merged = []
    i = 0
    while i < len(ids):
        found = tuple(ids[i : i + 2]) == pair
        merged.append(new if found else ids[i])
        i += 2 if found else 1
    return merged


def encode_word(word: bytes, merges: list[Pair]) -> list[int]:
    """Return the tokens of a word: apply each merge, in the order of learning.

    >>> encode_word(b"abaab", [(97, 98), (256, 256)])
    [256, 97, 256]
    """
    ids = list(word)
    for rank, pair in enumerate(merges):
        ids = merge(ids, pair, 256 + rank)
    return ids
