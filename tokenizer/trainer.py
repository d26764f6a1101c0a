"""Learning merges without rescanning: the same merges as naive.py, in time that grows with the changes only.

All different words lie one behind the other in a table of *places*, one byte each; each place is linked to
the next token of its word. Each different *pair* of neighbours has its count and a chain through the places
where it stands. One merge walks that chain, and touches only the pairs to the left and right of it.

Two facts keep this simple. A pair is born when its younger token is, so its whole chain is built during one
merge, in order of place. After that it can only lose places: counts only fall. So a heap may hold outdated
counts; whatever comes to its top is checked, and put back with today's count if it has fallen.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tokenizer.heap import Heap, drop_smallest, rise, sink
from tokenizer.kernels import kernel
from tokenizer.naive import Pair

Table = NDArray[np.int64]  # (rows, columns); a link is a row's number, and -1 links to nothing

# The columns of the places: the token, its neighbours in the word, the pair it makes with the one after it,
# the neighbours in that pair's chain, and how often the word occurs.
TOKEN, BEFORE, AFTER, PAIR, CHAIN_BEFORE, CHAIN_AFTER, WEIGHT = range(7)
# The columns of the pairs: the two tokens, both ends of the chain, and the weights of its places added up.
LEFT, RIGHT, FIRST, LAST, COUNT = range(5)


@kernel
def _link(places: Table, pairs: Table, place: int, pair: int) -> None:
    last = pairs[pair, LAST]
    if last < 0:
        pairs[pair, FIRST] = place
    else:
        places[last, CHAIN_AFTER] = place
    pairs[pair, LAST] = place
    pairs[pair, COUNT] += places[place, WEIGHT]
    places[place, PAIR] = pair
    places[place, CHAIN_BEFORE] = last
    places[place, CHAIN_AFTER] = -1


@kernel
def _unlink(places: Table, pairs: Table, place: int) -> None:
    pair = places[place, PAIR]
    before = places[place, CHAIN_BEFORE]
    after = places[place, CHAIN_AFTER]
    if before < 0:
        pairs[pair, FIRST] = after
    else:
        places[before, CHAIN_AFTER] = after
    if after < 0:
        pairs[pair, LAST] = before
    else:
        places[after, CHAIN_BEFORE] = before
    pairs[pair, COUNT] -= places[place, WEIGHT]


@kernel
def _join(places: Table, pairs: Table, num_pairs: int, found: NDArray[np.int64], key: int, place: int) -> int:
    """Link a place to the pair it now begins; found[key] is that pair, or -1 if it is still to be born."""
    pair = found[key]
    if pair < 0:
        pair = num_pairs
        found[key] = pair
        pairs[pair, LEFT] = places[place, TOKEN]
        pairs[pair, RIGHT] = places[places[place, AFTER], TOKEN]
        pairs[pair, FIRST] = -1
        pairs[pair, LAST] = -1
        pairs[pair, COUNT] = 0
        num_pairs += 1
    _link(places, pairs, place, pair)
    return num_pairs


@kernel
def _first_pairs(places: Table, pairs: Table) -> int:
    """Link all places to their pairs of bytes and return the number of different pairs."""
    found = np.full(256 * 256, -1, np.int64)
    num_pairs = 0
    for place in range(len(places)):
        after = places[place, AFTER]
        if after >= 0:
            key = places[place, TOKEN] * 256 + places[after, TOKEN]
            num_pairs = _join(places, pairs, num_pairs, found, key, place)
    return num_pairs


@kernel
def _merge(places: Table, pairs: Table, num_pairs: int, best: int, new: int, found: NDArray[np.int64]) -> int:
    """Replace the pair `best` by the token `new` wherever it stands; return the new number of pairs.

    Every pair born here holds `new`, so its other token is all the key it needs: found[0] for pairs (other,
    new), found[1] for pairs (new, other).
    """
    born = num_pairs
    place = pairs[best, FIRST]
    while place >= 0:
        partner = places[place, AFTER]
        before, after = places[place, BEFORE], places[partner, AFTER]
        _unlink(places, pairs, place)
        places[place, TOKEN] = new
        places[place, AFTER] = after
        if before >= 0:
            _unlink(places, pairs, before)
            num_pairs = _join(places, pairs, num_pairs, found[0], places[before, TOKEN], before)
        if after >= 0:
            places[after, BEFORE] = place
            _unlink(places, pairs, partner)
            num_pairs = _join(places, pairs, num_pairs, found[1], places[after, TOKEN], place)
        # In a run like `aaaa` the partner itself stood next in the chain, and is gone: take its head again.
        place = pairs[best, FIRST]
    for pair in range(born, num_pairs):
        found[0, pairs[pair, LEFT]] = -1
        found[1, pairs[pair, RIGHT]] = -1
    return num_pairs


@kernel
def _push(pairs: Table, born: int, num_pairs: int, heap: Heap, size: int, min_frequency: int) -> int:
    """Put the pairs just born into the heap: highest count first, then smallest left, then smallest right."""
    for pair in range(born, num_pairs):
        if pairs[pair, COUNT] >= min_frequency:
            heap[size, 0] = -pairs[pair, COUNT]
            heap[size, 1] = (pairs[pair, LEFT] << 32) | pairs[pair, RIGHT]
            heap[size, 2] = pair
            rise(heap, size)
            size += 1
    return size


@kernel
def _refresh_top(pairs: Table, heap: Heap, size: int, min_frequency: int) -> int:
    """Bring a pair with a true count to the top of the heap; return the new size."""
    while size > 0:
        count = pairs[heap[0, 2], COUNT]
        if heap[0, 0] == -count:
            break
        if count >= min_frequency:
            heap[0, 0] = -count
            sink(heap, size)
        else:
            size = drop_smallest(heap, size)
    return size


def learn_merges(
    words: Mapping[bytes, int], num_merges: int, min_frequency: int = 2, *, progress: bool = False
) -> list[Pair]:
    """Return the pairs that became tokens 256, 257, ..., given how often each word occurs.

    The pair with the highest count wins; among equals the smaller left token, then the smaller right token.
    So the order of the words never matters. Learning stops early when no pair occurs `min_frequency` times.

    >>> learn_merges({b"abab": 3, b"ab": 1, b"b": 9}, num_merges=5)
    [(97, 98), (256, 256)]
    """
    places = _lay_out(words)
    num_merges = min(num_merges, len(places))  # each merge takes one token away at least
    found = np.full((2, 256 + num_merges), -1, np.int64)
    pairs = np.zeros((256 * 256, 5), np.int64)
    heap = np.zeros((len(pairs), 3), np.int64)
    num_pairs = _first_pairs(places, pairs)
    size = _push(pairs, 0, num_pairs, heap, 0, min_frequency)
    merges: list[Pair] = []
    with tqdm(total=num_merges, desc="learning merges", disable=None if progress else True) as bar:
        while len(merges) < num_merges:
            size = _refresh_top(pairs, heap, size, min_frequency)
            if size == 0:
                break
            if num_pairs + found.size > len(pairs):  # each entry of `found` can be one pair that is born
                pairs = np.concatenate([pairs, np.zeros((len(pairs) + found.size, 5), np.int64)])
                heap = np.concatenate([heap, np.zeros((len(pairs) - len(heap), 3), np.int64)])
            best, born = int(heap[0, 2]), num_pairs
            num_pairs = _merge(places, pairs, num_pairs, best, 256 + len(merges), found)
            size = _push(pairs, born, num_pairs, heap, drop_smallest(heap, size), min_frequency)
            merges.append((int(pairs[best, LEFT]), int(pairs[best, RIGHT])))
            bar.update()
    return merges


def _lay_out(words: Mapping[bytes, int]) -> Table:
    """Write the bytes of all words into one table of places."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    weights = np.fromiter(words.values(), np.int64, len(words))
    tokens = np.frombuffer(b"".join(words), np.uint8)
    places = np.zeros((len(tokens), 7), np.int64)
    places[:, TOKEN] = tokens
    places[:, BEFORE] = np.arange(len(places)) - 1
    places[:, AFTER] = np.arange(len(places)) + 1
    places[:, WEIGHT] = np.repeat(weights, lengths)
    ends = lengths.cumsum()[lengths > 0]
    places[ends - lengths[lengths > 0], BEFORE] = -1
    places[ends - 1, AFTER] = -1
    return places
