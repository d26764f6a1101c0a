"""What one merge changes: the pairs that it creates with the new token, and the pairs that it breaks.

A merge of (left, right) into a new token turns each (token, left) before it into (token, new), and each (right, token)
after it into (new, token). All these changes are recorded first, and summed by their *kind*: the token and its side.
Then the pair of each kind is looked up once, however often the change happened.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer.jit import kernel
from tokenizer.structures.hash_table import KEY, NumberTable, number_slot
from tokenizer.structures.heap import Heap

COUNT, FIRST, END = 1, 2, 3  # the columns of a pair's row after KEY; its positions are positions[FIRST:END]
NUM_COLUMNS = 4
KIND, POSITION = range(2)  # the columns of a change
WEIGHT, NUMBER, NEXT = range(3)  # the columns of a sum


class Pairs(NamedTuple):
    """Pairs of tokens with their counts and positions; the key of a pair is left << 32 | right."""

    table: NumberTable
    heap: Heap  # rows of (-count, key); a count may be outdated
    positions: NDArray[np.int32]  # for each pair in turn, the positions of its left tokens in the corpus


class Changes(NamedTuple):
    """New pairs, one by one and summed by kind."""

    log: NDArray[np.int32]  # (changes, 2): the kind, and the position of the new pair
    sums: NDArray[np.int64]  # (kinds, 3): the words' counts, how many changes, the next free index of `positions`


BEFORE, AFTER = range(2)  # the side of a merge on which its neighbour stands


@kernel
def kind_of(token: int, side: int) -> int:
    """Return the kind of a change: BEFORE creates the pair (token, new), AFTER the pair (new, token)."""
    return 2 * token + side


@kernel
def pair_key(left: int, right: int) -> int:
    """Return the key of a pair."""
    return left << 32 | right


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
                key = pair_key(kind >> 8, kind & 0xFF)
            elif side == BEFORE:
                key = pair_key(token, new)
            else:
                key = pair_key(new, token)
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
            key = pair_key(token, left) if side == BEFORE else pair_key(right, token)
            pair = pairs.table.slots[number_slot(pairs.table, key)]
            if pair >= 0:
                pairs.table.rows[pair, COUNT] -= weight
        sums[kind, WEIGHT] = 0
        sums[kind, NUMBER] = 0
