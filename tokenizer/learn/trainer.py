"""Learning merges without rescanning: the merges of naive.py, in time that grows only with the changes.

**The corpus.** All different words are one array of tokens, which merges change in place: one byte per *position*, with
a border between words. A token of n bytes takes n positions and is written at the first and the last of them. So no
links to its neighbours are needed: the token before ends one position to the left, and the token after begins n
positions to the right.

**The pairs.** Each pair of adjacent tokens has its count and a list of its positions. Three facts keep this simple:

- A pair is created together with the newer of its tokens, so its list is written once, in order of position.
- After that it only loses positions, and a position never regains a pair. So a list never shrinks; a walk through it
  checks whether the pair is still at each position.
- Counts only decrease. So a pair that is too rare when it is created can be ignored for ever, and the heap may hold
  outdated counts: the count at its top is checked, and replaced by the current one if it has decreased.

**A merge** of (left, right) into a new token turns each (token, left) before it into (token, new), and each (right,
token) after it into (new, token). All these changes are recorded first, and summed by their *kind*: the token and its
side. Then the pair of each kind is looked up once, however often the change happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tokenizer.errors import TokenizerError
from tokenizer.jit import kernel
from tokenizer.learn.count import DEFAULT_MEMORY, WordCounts
from tokenizer.naive import Pair
from tokenizer.structures.hash_table import KEY, NumberTable, empty_slots, insert_numbers, number_slot
from tokenizer.structures.heap import Heap, drop_smallest, push, replace_smallest

COUNT, FIRST, END, NUM_COLUMNS = 1, 2, 3, 4  # the columns of a pair after KEY; its positions are positions[FIRST:END]
KIND, POSITION = range(2)  # the columns of a change
WEIGHT, NUMBER, NEXT = range(3)  # the columns of a sum
BEFORE, AFTER = range(2)  # the side of a merge on which its neighbour stands: kind = 2 * neighbour + side
STEPS = 256  # merges between two updates of the progress bar
MERGES, PAIRS, HEAP, POSITIONS = range(4)  # what `sizes` counts: merges, pairs, rows of the heap, positions of pairs
BORDER, INSIDE = -1, -2  # a position between words; a position inside a token, neither its first nor its last


class Corpus(NamedTuple):
    """Words of two bytes or more, with borders around them."""

    tokens: NDArray[np.int32]  # for each position, its token, BORDER or INSIDE
    words: NDArray[np.int32]  # for each position, the index of its word
    counts: NDArray[np.int64]  # for each word, how often it occurs


def lay_out(words: WordCounts) -> Corpus:
    """Return the corpus of the words of two bytes or more, each byte a token, with BORDER between words.

    Raises TokenizerError for 2^29 bytes or more, with a border counted for each word.

    >>> lay_out(WordCounts.of({b"ab": 7, b"c": 9})).tokens.tolist()
    [-1, 97, 98, -1]
    """
    useful = words.lengths >= 2
    word_bytes = words.word_bytes[np.repeat(useful, words.lengths)]
    lengths, counts = words.lengths[useful], words.counts[useful]
    if (size := len(word_bytes) + len(lengths)) >= 2**29:
        raise TokenizerError(
            f"the different words have {size:,} bytes with a border for each, expected fewer than {2**29:,}."
        )
    owners = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths + 1)
    tokens = np.full(len(owners) + 1, BORDER, np.int32)
    is_byte = np.ones(len(tokens), np.bool_)
    is_byte[0] = False
    is_byte[(lengths + 1).cumsum()] = False
    tokens[is_byte] = word_bytes
    # The border before the first word shifts every position by one.
    return Corpus(tokens, np.concatenate([np.zeros(1, np.int32), owners]), counts)


class Pairs(NamedTuple):
    """Pairs of tokens with their counts and positions; the key of a pair is left << 32 | right."""

    table: NumberTable
    heap: Heap  # rows of (-count, key); a count may be outdated
    positions: NDArray[np.int32]  # for each pair in turn, the positions of its left tokens in the corpus


class Changes(NamedTuple):
    """New pairs, one by one and summed by kind."""

    log: NDArray[np.int32]  # (changes, 2): the kind, and the position of the new pair
    sums: NDArray[np.int64]  # (kinds, 3): the words' counts, how many changes, the next free index of `positions`


class Learned(NamedTuple):
    """The merges so far."""

    keys: NDArray[np.int64]  # (merges,): the key of each merged pair
    lengths: NDArray[np.int64]  # (256 + merges,): the length of each token in bytes


@kernel
def record(changes: Changes, num_changes: int, kind: int, position: int, weight: int) -> int:
    """Record a new pair of a kind, in a word with the count `weight`; return the number of changes."""
    changes.log[num_changes, KIND] = kind
    changes.log[num_changes, POSITION] = position
    changes.sums[kind, WEIGHT] += weight
    changes.sums[kind, NUMBER] += 1
    return num_changes + 1


@kernel
def create_pairs(
    pairs: Pairs, num_pairs: int, num_positions: int, changes: Changes, num_changes: int, new: int, min_frequency: int
) -> tuple[int, int]:
    """Add the pairs that the changes create; return the new numbers of pairs and positions.

    For the first pairs, of two bytes, `new` is negative and the kind is 256 * left + right. Pairs rarer than
    `min_frequency` are left out.
    """
    rows, sums = pairs.table.rows, changes.sums
    for change in range(num_changes):
        kind = int(changes.log[change, KIND])
        if sums[kind, WEIGHT] < min_frequency:
            continue
        if sums[kind, NUMBER] > 0:  # the first change of its kind
            sums[kind, NEXT] = num_positions
            token, side = kind >> 1, kind & 1
            if new < 0:
                key = kind >> 8 << 32 | kind & 0xFF
            else:
                key = token << 32 | new if side == BEFORE else new << 32 | token
            pairs.table.slots[number_slot(pairs.table, key)] = num_pairs
            rows[num_pairs, KEY] = key
            rows[num_pairs, COUNT] = sums[kind, WEIGHT]
            rows[num_pairs, FIRST] = num_positions
            num_positions += sums[kind, NUMBER]
            rows[num_pairs, END] = num_positions
            num_pairs += 1
            sums[kind, NUMBER] = 0
        pairs.positions[sums[kind, NEXT]] = changes.log[change, POSITION]
        sums[kind, NEXT] += 1
    return num_pairs, num_positions


@kernel
def subtract_broken(pairs: Pairs, changes: Changes, num_changes: int, left: int, right: int) -> None:
    """Lower the counts of the pairs that the merge of (left, right) has broken, and clear the sums."""
    sums = changes.sums
    for change in range(num_changes):
        kind = int(changes.log[change, KIND])
        weight = sums[kind, WEIGHT]
        if weight > 0:
            # The pair (token, new) was (token, left) before the merge; (new, token) was (right, token).
            token, side = kind >> 1, kind & 1
            key = token << 32 | left if side == BEFORE else right << 32 | token
            pair = pairs.table.slots[number_slot(pairs.table, key)]
            if pair >= 0:
                pairs.table.rows[pair, COUNT] -= weight
        sums[kind, WEIGHT] = 0
        sums[kind, NUMBER] = 0


@kernel
def _create_first_pairs(corpus: Corpus, pairs: Pairs, changes: Changes, min_frequency: int) -> tuple[int, int]:
    """Create the pairs of two bytes; return how many pairs and positions there are."""
    tokens, num_changes = corpus.tokens, 0
    for position in range(len(tokens) - 1):
        left, right = tokens[position], tokens[position + 1]
        if left >= 0 and right >= 0:
            weight = corpus.counts[corpus.words[position]]
            num_changes = record(changes, num_changes, 256 * left + right, position, weight)
    return create_pairs(pairs, 0, 0, changes, num_changes, -1, min_frequency)


@kernel
def _merge_everywhere(
    corpus: Corpus, pairs: Pairs, pair: int, lengths: NDArray[np.int64], new: int, changes: Changes
) -> int:
    """Replace a pair by the token `new` at all its positions; record all new pairs and return their number."""
    tokens, row = corpus.tokens, pairs.table.rows[pair]
    left, right = row[KEY] >> 32, row[KEY] & 0xFFFFFFFF
    to_partner, length = lengths[left], lengths[left] + lengths[right]
    num_changes = 0
    for i in range(row[FIRST], row[END]):
        position = pairs.positions[i]
        partner = position + to_partner
        if tokens[position] != left or tokens[partner] != right:
            continue  # an earlier merge used one of the two tokens
        weight = corpus.counts[corpus.words[position]]
        tokens[partner] = INSIDE
        tokens[position] = new
        tokens[position + length - 1] = new
        before, after = tokens[position - 1], tokens[position + length]
        if before >= 0:
            num_changes = record(changes, num_changes, 2 * before + BEFORE, position - lengths[before], weight)
        if after >= 0:
            num_changes = record(changes, num_changes, 2 * after + AFTER, position, weight)
    return num_changes


@kernel
def _push_pairs(pairs: Pairs, first: int, num_pairs: int, heap_size: int, min_frequency: int) -> int:
    """Push the pairs from `first` on; the highest count is the top of the heap, then the smallest left, then right."""
    for pair in range(first, num_pairs):
        count = pairs.table.rows[pair, COUNT]
        if count >= min_frequency:
            heap_size = push(pairs.heap, heap_size, -count, pairs.table.rows[pair, KEY])
    return heap_size


@kernel
def _update_top(pairs: Pairs, heap_size: int, min_frequency: int) -> int:
    """Correct outdated counts until the top of the heap has a current one; return the new size of the heap."""
    heap = pairs.heap
    while heap_size > 0:
        key = heap[0, 1]
        count = pairs.table.rows[pairs.table.slots[number_slot(pairs.table, key)], COUNT]
        if heap[0, 0] == -count:
            break
        if count >= min_frequency:
            replace_smallest(heap, heap_size, -count, key)
        else:
            heap_size = drop_smallest(heap, heap_size)
    return heap_size


@kernel
def _learn(
    corpus: Corpus,
    pairs: Pairs,
    changes: Changes,
    learned: Learned,
    sizes: NDArray[np.int64],
    num_merges: int,
    min_frequency: int,
) -> None:
    """Learn until there are `num_merges` merges, no pair is left, or the table of pairs is too small for a merge."""
    num_learned, num_pairs, heap_size, num_positions = sizes[MERGES], sizes[PAIRS], sizes[HEAP], sizes[POSITIONS]
    rows, lengths = pairs.table.rows, learned.lengths
    while num_learned < num_merges:
        heap_size = _update_top(pairs, heap_size, min_frequency)
        new = 256 + num_learned
        # A merge creates at most two pairs with each older token, and the pair (new, new).
        if heap_size == 0 or num_pairs + 2 * new + 1 > len(rows):
            break
        best = pairs.table.slots[number_slot(pairs.table, pairs.heap[0, 1])]
        heap_size = drop_smallest(pairs.heap, heap_size)
        key = rows[best, KEY]
        left, right = key >> 32, key & 0xFFFFFFFF
        learned.keys[num_learned] = key
        lengths[new] = lengths[left] + lengths[right]
        num_changes, first = _merge_everywhere(corpus, pairs, best, lengths, new, changes), num_pairs
        num_pairs, num_positions = create_pairs(pairs, first, num_positions, changes, num_changes, new, min_frequency)
        subtract_broken(pairs, changes, num_changes, left, right)
        rows[best, COUNT] = 0
        heap_size = _push_pairs(pairs, first, num_pairs, heap_size, min_frequency)
        num_learned += 1
    sizes[MERGES], sizes[PAIRS], sizes[HEAP], sizes[POSITIONS] = num_learned, num_pairs, heap_size, num_positions


def learn_merges(
    words: Mapping[bytes, int] | WordCounts,
    num_merges: int,
    min_frequency: int = 2,
    *,
    max_memory: int = DEFAULT_MEMORY,
    progress: bool = False,
) -> list[Pair]:
    """Return the pairs that become tokens 256, 257, ..., given how often each word occurs.

    The pair with the highest count is merged; among equal counts the smaller left token, then the smaller right token
    decides. So the order of the words never matters. Learning stops early when no pair occurs `min_frequency` times.
    Raises TokenizerError if the tables need more than `max_memory` bytes.
    """
    corpus = lay_out(words if isinstance(words, WordCounts) else WordCounts.of(words))
    size = len(corpus.tokens)
    num_merges = min(num_merges, size)  # each merge removes one token at least
    learned = Learned(np.empty(num_merges, np.int64), np.ones(256 + num_merges, np.int64))
    # Each position begins one pair at first, and each merge, which removes one token, creates two at most.
    positions = np.empty(3 * size, np.int32)
    changes = Changes(np.empty((size, 2), np.int32), np.zeros((2 * len(learned.lengths), 3), np.int64))
    fixed = sum(array.nbytes for array in (*corpus, *learned, *changes, positions))
    capacity = 256 * 256 + 1024
    _check_memory(capacity, fixed, max_memory)
    rows, heap = np.empty((capacity, NUM_COLUMNS), np.int64), np.empty((capacity, 2), np.int64)
    pairs = Pairs(NumberTable(empty_slots(capacity), rows), heap, positions)
    first = changes._replace(sums=np.zeros((256 * 256, 3), np.int64))
    num_pairs, num_positions = _create_first_pairs(corpus, pairs, first, min_frequency)
    heap_size = _push_pairs(pairs, 0, num_pairs, 0, min_frequency)
    sizes = np.array([0, num_pairs, heap_size, num_positions], np.int64)
    with tqdm(total=num_merges, desc="learning merges", disable=None if progress else True) as bar:
        while sizes[MERGES] < num_merges and sizes[HEAP] > 0:
            before, goal = int(sizes[MERGES]), min(int(sizes[MERGES]) + STEPS, num_merges)
            _learn(corpus, pairs, changes, learned, sizes, goal, min_frequency)
            bar.update(int(sizes[MERGES]) - before)
            if sizes[MERGES] < goal and sizes[HEAP] > 0:
                capacity += capacity // 2 + 2 * len(learned.lengths)
                _check_memory(capacity, fixed, max_memory)
                pairs = _enlarged(pairs, capacity, int(sizes[PAIRS]))
    return [(key >> 32, key & 0xFFFFFFFF) for key in learned.keys[: sizes[MERGES]].tolist()]


def _enlarged(pairs: Pairs, capacity: int, num_pairs: int) -> Pairs:
    """Return the same pairs in larger tables."""
    more = capacity - len(pairs.heap)
    rows = np.concatenate([pairs.table.rows, np.empty((more, NUM_COLUMNS), np.int64)])
    table = NumberTable(empty_slots(capacity), rows)
    insert_numbers(table, num_pairs)
    return Pairs(table, np.concatenate([pairs.heap, np.empty((more, 2), np.int64)]), pairs.positions)


def _check_memory(capacity: int, fixed: int, max_memory: int) -> None:
    """Raise TokenizerError if tables for this many pairs, with `fixed` bytes of other arrays, need too much memory."""
    # A pair takes 32 bytes, 16 in the heap and up to 16 in the slots; while the tables are enlarged, the rows of the
    # pairs are in memory twice.
    needed = fixed + 96 * capacity
    if needed > max_memory:
        raise TokenizerError(
            f"learning these merges takes {needed:,} bytes, more than max_memory={max_memory:,}; give more memory, a "
            "larger min_frequency, or less text."
        )
