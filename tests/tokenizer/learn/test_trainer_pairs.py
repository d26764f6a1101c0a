import numpy as np
import pytest

from tokenizer.learn.trainer import (
    COUNT,
    END,
    FIRST,
    NUMBER,
    WEIGHT,
    Changes,
    Pairs,
    create_pairs,
    record,
    subtract_broken,
)
from tokenizer.structures.hash_table import KEY, NumberTable, empty_slots, number_slot


@pytest.fixture
def pairs():
    table = NumberTable(empty_slots(16), np.zeros((16, 4), np.int64))
    return Pairs(table, np.zeros((16, 2), np.int64), np.zeros(32, np.int32))


@pytest.fixture
def changes():
    return Changes(np.zeros((32, 2), np.int32), np.zeros((2 * 300, 3), np.int64))


def find(pairs, left, right):
    """The count and positions of a pair, or None if it is not in the table."""
    row = pairs.table.slots[number_slot(pairs.table, left << 32 | right)]
    if row < 0:
        return None
    first, end = pairs.table.rows[row, FIRST], pairs.table.rows[row, END]
    return int(pairs.table.rows[row, COUNT]), pairs.positions[first:end].tolist()


def test_a_merge_creates_a_pair_for_each_neighbour(pairs, changes):
    # The new token 256 stands three times after token 7 and once before it.
    num_changes = 0
    for kind, position, weight in [(2 * 7, 1, 5), (2 * 7 + 1, 3, 4), (2 * 7, 6, 5), (2 * 7, 9, 2)]:
        num_changes = record(changes, num_changes, kind, position, weight)
    assert create_pairs(pairs, 0, 0, changes, num_changes, 256, 2) == (2, 4)
    assert find(pairs, 7, 256) == (12, [1, 6, 9])
    assert find(pairs, 256, 7) == (4, [3])
    assert find(pairs, 7, 7) is None


def test_the_first_pairs_are_of_bytes(pairs):
    by_bytes = Changes(np.zeros((32, 2), np.int32), np.zeros((256 * 256, 3), np.int64))
    num_changes = record(by_bytes, 0, 256 * 97 + 98, 4, 3)
    assert create_pairs(pairs, 0, 0, by_bytes, num_changes, -1, 1) == (1, 1)
    assert find(pairs, 97, 98) == (3, [4])


def test_rare_pairs_are_left_out(pairs, changes):
    num_changes = record(changes, record(changes, 0, 2 * 7, 1, 1), 2 * 8, 2, 3)
    assert create_pairs(pairs, 0, 0, changes, num_changes, 256, 2) == (1, 1)
    assert find(pairs, 7, 256) is None
    assert find(pairs, 8, 256) == (3, [2])


def test_broken_pairs_lose_what_the_new_ones_have(pairs, changes):
    for row, (left, right, count) in enumerate([(7, 97, 20), (98, 7, 30)]):
        pairs.table.rows[row, KEY], pairs.table.rows[row, COUNT] = left << 32 | right, count
        pairs.table.slots[number_slot(pairs.table, left << 32 | right)] = row
    num_changes = 0
    # 7 before the merge of (97, 98), 7 after it, and a token whose pair was too rare to be in the table.
    for kind, weight in [(2 * 7, 5), (2 * 7 + 1, 4), (2 * 7, 1), (2 * 9, 1)]:
        num_changes = record(changes, num_changes, kind, 0, weight)
    subtract_broken(pairs, changes, num_changes, 97, 98)
    assert find(pairs, 7, 97)[0] == 14
    assert find(pairs, 98, 7)[0] == 26
    assert not changes.sums[:, [WEIGHT, NUMBER]].any()
