"""The step from naive.py to trainer.py: count the pairs once, then only what each merge changes.

naive.py counts every pair of the whole text for every merge. But a merge only touches the words that hold its pair, and
a text has many words. So here each pair knows its count and its words, and a heap knows the most frequent pair. This is
how fast trainers work, in plain Python; trainer.py does the same in arrays, a hundred times as fast.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise

from tokenizer.naive import Pair, merge


def learn_merges(words: Mapping[bytes, int], num_merges: int, min_frequency: int = 2) -> list[Pair]:
    """Return the pairs that became tokens 256, 257, ..., given how often each word occurs.

    The pair with the highest count wins; among equals the smaller left token, then the smaller right token.
    Learning stops early when no pair occurs `min_frequency` times.

    >>> learn_merges({b"abab": 3, b"ab": 1, b"b": 9}, num_merges=5)
    [(97, 98), (256, 256)]
    """
    tokens = {word: list(word) for word in words}
    counts: Counter[Pair] = Counter()
    holders: defaultdict[Pair, set[bytes]] = defaultdict(set)  # the words that hold a pair, or once held it
    for word in words:
        for pair in pairwise(word):
            counts[pair] += words[word]
            holders[pair].add(word)
    # A heap takes out its smallest entry first, hence the minus. Its counts may be outdated, but never too low.
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while heap and len(merges) < num_merges:
        outdated, best = heapq.heappop(heap)
        if counts[best] < -outdated:
            heapq.heappush(heap, (-counts[best], best))
            continue
        if counts[best] < min_frequency:
            break
        new = 256 + len(merges)
        merges.append(best)
        born = set()
        for word in holders.pop(best):
            for pair in pairwise(tokens[word]):
                counts[pair] -= words[word]
            tokens[word] = merge(tokens[word], best, new)
            for pair in pairwise(tokens[word]):
                counts[pair] += words[word]
                if new in pair:
                    holders[pair].add(word)
                    born.add(pair)
        for pair in born:
            heapq.heappush(heap, (-counts[pair], pair))
    return merges
