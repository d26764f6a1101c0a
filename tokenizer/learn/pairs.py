"""What one merge changes: pairs that are born with the new token, and pairs that it breaks.

A merge of (left, right) into a new token turns each (token, left) in front of it into (token, new), and each
(right, token) behind it into (new, token). All these changes are noted first and added up by the token, which is a
small number. Then each kind of change is looked up once, however often it happened.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer.jit import kernel
from tokenizer.structures.hash_table import KEY, Rows, Slots, number_slot

Places = NDArray[np.int32]
Numbers = NDArray[np.int64]

COUNT, FIRST, END = 1, 2, 3  # the columns of the pairs, after KEY; the pair's places are lists[FIRST:END]
KIND, WHERE = range(2)  # the columns of the changes
WEIGHT, NUMBER, NEXT = range(3)  # of each kind of change: the sum of its words' counts, how many, where the next goes


@kernel
def note(changes: Places, num_changes: int, sums: Numbers, kind: int, place: int, weight: int) -> int:
    """Note that a pair, of a kind, now stands at a place; return the number of changes."""
    changes[num_changes, KIND] = kind
    changes[num_changes, WHERE] = place
    sums[kind, WEIGHT] += weight
    sums[kind, NUMBER] += 1
    return num_changes + 1


@kernel
def bear(
    changes: Places,
    num_changes: int,
    sums: Numbers,
    new: int,
    min_frequency: int,
    pairs: Rows,
    slots: Slots,
    num_pairs: int,
    lists: Places,
    listed: int,
) -> tuple[int, int]:
    """Make the pairs that the changes tell of; return how many pairs there are and how much of `lists` is full.

    With new >= 0, the kind 2 * token stands for the pair (token, new), and 2 * token + 1 for (new, token). At the start
    (new < 0) the kind is 256 * left + right.
    """
    for change in range(num_changes):
        kind = int(changes[change, KIND])
        if sums[kind, WEIGHT] < min_frequency:
            continue
        if sums[kind, NUMBER] > 0:
            sums[kind, NEXT] = listed
            if new < 0:
                left, right = kind >> 8, kind & 0xFF
            elif kind & 1:
                left, right = new, kind >> 1
            else:
                left, right = kind >> 1, new
            name = left << 32 | right
            slots[number_slot(slots, pairs, name)] = num_pairs
            pairs[num_pairs, KEY] = name
            pairs[num_pairs, COUNT] = sums[kind, WEIGHT]
            pairs[num_pairs, FIRST] = listed
            listed += sums[kind, NUMBER]
            pairs[num_pairs, END] = listed
            num_pairs += 1
            sums[kind, NUMBER] = 0
        lists[sums[kind, NEXT]] = changes[change, WHERE]
        sums[kind, NEXT] += 1
    return num_pairs, listed


@kernel
def take_away(
    changes: Places, num_changes: int, sums: Numbers, left: int, right: int, pairs: Rows, slots: Slots
) -> None:
    """Lower the counts of the pairs that the merge of (left, right) has broken, and clear the sums."""
    for change in range(num_changes):
        kind = int(changes[change, KIND])
        weight = sums[kind, WEIGHT]
        if weight > 0:
            # What is (token, new) now was (token, left) before; what is (new, token) was (right, token).
            name = right << 32 | kind >> 1 if kind & 1 else kind >> 1 << 32 | left
            pair = slots[number_slot(slots, pairs, name)]
            if pair >= 0:
                pairs[pair, COUNT] -= weight
        sums[kind, WEIGHT] = 0
        sums[kind, NUMBER] = 0
