from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.learn.count import COUNT, WordCounts, WordTotals
from tokenizer.structures.hash_table import HASH, LENGTH, START, hash_of


@given(st.dictionaries(st.binary(max_size=5), st.integers(1, 2**62)))
def test_a_mapping_in_arrays_and_back(words):
    arrays = WordCounts.of(words)
    assert dict(arrays.items()) == words
    assert arrays.counts.dtype == np.int64


chunks = st.lists(st.dictionaries(st.binary(min_size=1, max_size=6), st.integers(1, 9)), max_size=5)


def rows_of(words):
    """A chunk as the kernel that counts makes it: its text, and a row for each word."""
    text = np.frombuffer(bytearray(b"".join(words)), np.uint8)
    rows, start = np.zeros((len(words), 4), np.int64), 0
    for row, (word, count) in zip(rows, words.items(), strict=True):
        row[START], row[LENGTH], row[COUNT] = start, len(word), count
        row[HASH] = hash_of(text, start, start + len(word))
        start += len(word)
    return text, rows


@given(chunks)
def test_the_counts_of_all_chunks_are_added(chunks):
    totals, expected = WordTotals(10**6), Counter()
    for chunk in chunks:
        totals.add(*rows_of(chunk))
        expected.update(chunk)
    assert dict(totals.words().items()) == expected
    assert list(dict(totals.words().items())) == list(expected)  # in the order of first appearance
    assert totals.removed == 0


@given(chunks, st.integers(1, 20))
def test_the_frequent_words_are_kept(chunks, max_bytes):
    totals, seen = WordTotals(max_bytes), Counter()
    for chunk in chunks:
        totals.add(*rows_of(chunk))
        seen.update(chunk)
        words = totals.words()
        assert len(words.word_bytes) <= max_bytes
        assert all(count <= seen[word] for word, count in words.items())


def test_words_of_equal_count_are_removed_together():
    totals = WordTotals(10)
    totals.add(*rows_of({b"aaa": 5, b"bbb": 2, b"ccc": 2, b"ddd": 1}))
    assert dict(totals.words().items()) == {b"aaa": 5}
    assert totals.removed == 2
    fewer = WordTotals(10)
    fewer.add(*rows_of({b"aaa": 9, b"bbb": 5, b"ccc": 5, b"ddd": 5}))
    fewer.add(*rows_of({b"eee": 1, b"fff": 1, b"ggg": 1}))
    assert fewer.removed == 5  # and not 1, the count at the last time
    totals.add(*rows_of({b"bbb": 1, b"aaa": 1}))
    assert dict(totals.words().items()) == {b"aaa": 6, b"bbb": 1}


def test_the_tables_grow():
    totals = WordTotals(10**7)
    words = {f"{i:08}".encode(): i + 1 for i in range(20_000)}
    totals.add(*rows_of(words))
    totals.add(*rows_of({b"x" * 100_000: 1}))
    assert dict(totals.words().items()) == words | {b"x" * 100_000: 1}
