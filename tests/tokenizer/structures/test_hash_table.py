import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.structures.hash_table import (
    HASH,
    KEY,
    LENGTH,
    START,
    NumberTable,
    WordTable,
    empty_slots,
    hash_of,
    insert_numbers,
    insert_words,
    number_slot,
    word_slot,
)

different_words = st.lists(st.binary(max_size=4), unique=True, min_size=1, max_size=40)
# Keys are pairs of tokens; a small left half and keys that differ only in it must not share all their slots.
keys = st.lists(st.integers(0, 2**61) | st.integers(0, 99).map(lambda n: n << 32), unique=True, min_size=1, max_size=40)


@pytest.mark.parametrize("capacity", [1, 2, 3, 4, 5, 7, 8, 9, 1000, 1024, 1025])
def test_at_most_half_of_the_slots_are_used(capacity):
    slots = empty_slots(capacity)
    assert len(slots) >= 2 * capacity
    assert len(slots) & (len(slots) - 1) == 0
    assert np.all(slots == -1)


def test_the_hash_is_fnv_1a():
    # Test vectors of the authors: draft-eastlake-fnv, appendix C.
    for text, expected in ((b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)):
        array = np.frombuffer(bytearray(b"xx" + text + b"y"), np.uint8)
        assert hash_of(array, 2, 2 + len(text)) == expected


@given(different_words, st.binary(max_size=4), st.booleans())
def test_a_word_is_found_where_it_was_inserted(words, other, same_hash):
    text = np.frombuffer(bytearray(b"".join([*words, other])), np.uint8)
    ends = np.cumsum([len(word) for word in [*words, other]]).tolist()
    starts = [0, *ends[:-1]]
    # With one hash for all words, every lookup has to walk and to compare bytes.
    hashes = [1 if same_hash else hash_of(text, *place) for place in zip(starts, ends, strict=True)]
    rows = np.zeros((len(words), 3), np.int64)
    rows[:, START], rows[:, LENGTH], rows[:, HASH] = starts[:-1], [len(word) for word in words], hashes[:-1]
    table = WordTable(empty_slots(len(rows)), rows, text)
    insert_words(table, len(rows))
    found = [int(table.slots[word_slot(table, text, *key)]) for key in zip(starts, ends, hashes, strict=True)]
    assert found[:-1] == list(range(len(words)))
    assert found[-1] == (words.index(other) if other in words else -1)


@given(keys, st.integers(0, 2**61))
def test_a_number_is_found_where_it_was_inserted(keys, other):
    rows = np.array([[key, 0] for key in keys], np.int64)
    table = NumberTable(empty_slots(len(rows)), rows)
    insert_numbers(table, len(rows))
    assert [int(table.slots[number_slot(table, key)]) for key in keys] == list(range(len(keys)))
    assert table.rows[:, KEY].tolist() == keys
    assert table.slots[number_slot(table, other)] == (keys.index(other) if other in keys else -1)
