"""Learning merges without rescanning: the same merges as naive.py, in time that grows with the changes only.

All different words lie one behind the other in one row of *places*, one byte each, with a border between words. A
token of n bytes takes n places and has its number on the first and on the last of them. So its neighbours need no
links: the token before it ends one place to the left, the token after it begins n places to the right.

Each *pair* of neighbours has its count and a list of the places where it stands. Three facts keep this simple:

- A pair is born when its younger token is, so its list is written once, in order of place.
- After that it can only lose places, and a place never gets a pair back. So nothing is ever taken out of a list:
  whoever walks it looks whether the pair still stands there.
- Counts only fall. So a pair that is born too rare can be ignored for ever, and the heap may hold outdated counts:
  whatever comes to its top is checked, and put back with today's count if it has fallen.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tqdm import tqdm

from tokenizer.errors import TokenizerError
from tokenizer.jit import kernel
from tokenizer.learn.count import LARGEST_MEMORY, WordCounts
from tokenizer.learn.pairs import COUNT, END, FIRST, Numbers, Places, bear, note, take_away
from tokenizer.naive import Pair
from tokenizer.structures.hash_table import KEY, Rows, Slots, free_slots, number_slot, seat_numbers
from tokenizer.structures.heap import Heap, drop_smallest, push, replace_smallest

BORDER, INSIDE = -1, -2  # what stands on a place that is no token's first or last
STEPS = 256  # merges between two looks at the progress bar


@kernel
def _first_pairs(
    places: Places,
    owners: Places,
    counts: Numbers,
    min_frequency: int,
    pairs: Rows,
    slots: Slots,
    lists: Places,
    changes: Places,
    sums: Numbers,
) -> tuple[int, int]:
    """Make the pairs of bytes; return their number and how much of `lists` is full."""
    num_changes = 0
    for place in range(len(places) - 1):
        left, right = places[place], places[place + 1]
        if left >= 0 and right >= 0:
            num_changes = note(changes, num_changes, sums, 256 * left + right, place, counts[owners[place]])
    return bear(changes, num_changes, sums, -1, min_frequency, pairs, slots, 0, lists, 0)


@kernel
def _merge(
    places: Places,
    owners: Places,
    counts: Numbers,
    lengths: Numbers,
    pair: Numbers,
    new: int,
    lists: Places,
    changes: Places,
    sums: Numbers,
) -> int:
    """Replace a pair by the token `new` wherever it stands; note all changes and return their number."""
    left, right = pair[KEY] >> 32, pair[KEY] & 0xFFFFFFFF
    to_partner, length = lengths[left], lengths[left] + lengths[right]
    num_changes = 0
    for i in range(pair[FIRST], pair[END]):
        place = lists[i]
        partner = place + to_partner
        if places[place] != left or places[partner] != right:
            continue  # an earlier merge took one of the two tokens
        weight = counts[owners[place]]
        places[partner] = INSIDE
        places[place] = new
        places[place + length - 1] = new
        before, after = places[place - 1], places[place + length]
        if before >= 0:
            num_changes = note(changes, num_changes, sums, 2 * before, place - lengths[before], weight)
        if after >= 0:
            num_changes = note(changes, num_changes, sums, 2 * after + 1, place, weight)
    return num_changes


@kernel
def _push_born(pairs: Rows, born: int, num_pairs: int, heap: Heap, size: int, min_frequency: int) -> int:
    """Put the pairs just born into the heap: highest count first, then smallest left, then smallest right."""
    for pair in range(born, num_pairs):
        if pairs[pair, COUNT] >= min_frequency:
            size = push(heap, size, -pairs[pair, COUNT], pairs[pair, KEY])
    return size


@kernel
def _refresh_top(pairs: Rows, slots: Slots, heap: Heap, size: int, min_frequency: int) -> int:
    """Bring a pair with a true count to the top of the heap; return the new size."""
    while size > 0:
        key = heap[0, 1]
        count = pairs[slots[number_slot(slots, pairs, key)], COUNT]
        if heap[0, 0] == -count:
            break
        if count >= min_frequency:
            replace_smallest(heap, size, -count, key)
        else:
            size = drop_smallest(heap, size)
    return size


@kernel
def _learn(
    places: Places,
    owners: Places,
    counts: Numbers,
    lengths: Numbers,
    pairs: Rows,
    slots: Slots,
    heap: Heap,
    lists: Places,
    changes: Places,
    sums: Numbers,
    merges: Numbers,
    state: Numbers,
    num_merges: int,
    min_frequency: int,
) -> None:
    """Learn merges until there are `num_merges` of them, no pair is left, or the pairs need more room.

    `state` holds the numbers of merges, pairs and heap rows, and how much of `lists` is full.
    """
    num_learned, num_pairs, size, listed = state[0], state[1], state[2], state[3]
    while num_learned < num_merges:
        size = _refresh_top(pairs, slots, heap, size, min_frequency)
        new = 256 + num_learned
        if size == 0 or num_pairs + 2 * new > len(pairs):  # a merge bears one pair with each token on each side at most
            break
        best = slots[number_slot(slots, pairs, heap[0, 1])]
        size = drop_smallest(heap, size)
        merges[num_learned] = pairs[best, KEY]
        left, right = pairs[best, KEY] >> 32, pairs[best, KEY] & 0xFFFFFFFF
        lengths[new] = lengths[left] + lengths[right]
        num_changes = _merge(places, owners, counts, lengths, pairs[best], new, lists, changes, sums)
        born = num_pairs
        num_pairs, listed = bear(changes, num_changes, sums, new, min_frequency, pairs, slots, num_pairs, lists, listed)
        take_away(changes, num_changes, sums, left, right, pairs, slots)
        pairs[best, COUNT] = 0
        size = _push_born(pairs, born, num_pairs, heap, size, min_frequency)
        num_learned += 1
    state[0], state[1], state[2], state[3] = num_learned, num_pairs, size, listed


def learn_merges(
    words: Mapping[bytes, int] | WordCounts,
    num_merges: int,
    min_frequency: int = 2,
    *,
    max_memory: int = LARGEST_MEMORY,
    progress: bool = False,
) -> list[Pair]:
    """Return the pairs that became tokens 256, 257, ..., given how often each word occurs.

    The pair with the highest count wins; among equals the smaller left token, then the smaller right token.
    So the order of the words never matters. Learning stops early when no pair occurs `min_frequency` times.
    Raises TokenizerError if the tables would take more than `max_memory` bytes.

    >>> learn_merges({b"abab": 3, b"ab": 1, b"b": 9}, num_merges=5)
    [(97, 98), (256, 256)]
    """
    places, owners, counts = _lay_out(words if isinstance(words, WordCounts) else WordCounts.of(words))
    num_merges = min(num_merges, len(places))  # each merge takes one token away at least
    lengths = np.ones(256 + num_merges, np.int64)
    merges = np.empty(num_merges, np.int64)
    # Each place holds one pair at the start, and each merge, which takes one token away, adds two at most.
    lists, changes = np.empty(3 * len(places), np.int32), np.empty((len(places), 2), np.int32)
    sums = np.zeros((2 * len(lengths), 3), np.int64)
    fixed = sum(array.nbytes for array in (places, owners, counts, lengths, merges, lists, changes, sums))
    room = 256 * 256 + 1024
    _check_memory(room, fixed, max_memory)
    pairs, heap, slots = np.empty((room, 4), np.int64), np.empty((room, 2), np.int64), free_slots(room)
    num_pairs, listed = _first_pairs(
        places, owners, counts, min_frequency, pairs, slots, lists, changes, np.zeros((256 * 256, 3), np.int64)
    )
    size = _push_born(pairs, 0, num_pairs, heap, 0, min_frequency)
    state = np.array([0, num_pairs, size, listed], np.int64)
    with tqdm(total=num_merges, desc="learning merges", disable=None if progress else True) as bar:
        while state[0] < num_merges and state[2] > 0:
            before, goal = int(state[0]), min(int(state[0]) + STEPS, num_merges)
            _learn(
                places, owners, counts, lengths, pairs, slots, heap, lists, changes, sums, merges, state, goal,
                min_frequency,
            )  # fmt: skip
            bar.update(int(state[0]) - before)
            if state[0] < goal and state[2] > 0:
                more = len(pairs) // 2 + 2 * len(lengths)
                _check_memory(len(pairs) + more, fixed, max_memory)
                pairs = np.concatenate([pairs, np.empty((more, 4), np.int64)])
                heap = np.concatenate([heap, np.empty((more, 2), np.int64)])
                slots = free_slots(len(pairs))
                seat_numbers(slots, pairs, int(state[1]))
    return [(key >> 32, key & 0xFFFFFFFF) for key in merges[: state[0]].tolist()]


def _check_memory(room: int, fixed: int, max_memory: int) -> None:
    # A pair takes 32 bytes, 16 in the heap and up to 16 among the slots; while more room is made, the pairs lie in
    # memory twice.
    needed = fixed + 96 * room
    if needed > max_memory:
        raise TokenizerError(
            f"learning these merges takes {needed:,} bytes, more than max_memory={max_memory:,}; give more memory, a "
            "larger min_frequency, or less text."
        )


def _lay_out(words: WordCounts) -> tuple[Places, Places, Numbers]:
    """Write all words of two bytes or more into one row of places, with borders around them.

    Returns the places, the number of each one's word, and the words' counts.
    """
    useful = words.lengths >= 2
    letters = words.letters[np.repeat(useful, words.lengths)]
    lengths, counts = words.lengths[useful], words.counts[useful]
    if len(letters) + len(lengths) >= 2**31 // 4:
        raise TokenizerError(f"the different words have {len(letters):,} bytes together: at most 500 million will do.")
    owners = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths + 1)
    places = np.full(len(owners) + 1, BORDER, np.int32)
    ends = (lengths + 1).cumsum()
    inside = np.ones(len(places), np.bool_)
    inside[0] = False
    inside[ends] = False
    places[inside] = letters
    # A word's places and the border behind it come one place later than in `owners`, for the border in front of all.
    return places, np.concatenate([np.zeros(1, np.int32), owners]), counts
