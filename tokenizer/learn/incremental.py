"""From naive.py to trainer.py: count all pairs once, and then update only the counts that a merge changes.

naive.py counts every pair of the whole text for every merge. But a merge changes only the words that contain its pair,
and a text has many words. So here each pair has its count and the set of its words, and a heap gives the most frequent
pair. Fast trainers work like this; trainer.py does it in arrays, a hundred times as fast as this file.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise

from tokenizer.naive import Pair, merge


def learn_merges(words: Mapping[bytes, int], num_merges: int, min_frequency: int = 2) -> list[Pair]:
    """Return what `naive.learn_merges` returns: the pairs that become tokens 256, 257, ...

    >>> learn_merges({b"abab": 3, b"ab": 1, b"b": 9}, num_merges=5)
    [(97, 98), (256, 256)]
    """
    tokens = {word: list(word) for word in words}
    counts: Counter[Pair] = Counter()
    words_of: defaultdict[Pair, set[bytes]] = defaultdict(set)  # the words that contain a pair, or did so earlier
    for word in words:
        for pair in pairwise(word):
            counts[pair] += words[word]
            words_of[pair].add(word)
    # heapq gives the smallest entry first, so counts are negated. They may be outdated: too high, but never too low.
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while heap and len(merges) < num_merges:
        negated, best = heapq.heappop(heap)
        if counts[best] < -negated:
            heapq.heappush(heap, (-counts[best], best))
            continue
        if counts[best] < min_frequency:
            break
        new = 256 + len(merges)
        merges.append(best)
        created = set()
        for word in words_of.pop(best):
            for pair in pairwise(tokens[word]):
                counts[pair] -= words[word]
            tokens[word] = merge(tokens[word], best, new)
            for pair in pairwise(tokens[word]):
                counts[pair] += words[word]
                if new in pair:
                    words_of[pair].add(word)
                    created.add(pair)
        for pair in created:
            heapq.heappush(heap, (-counts[pair], pair))
    return merges
