import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer import naive
from tokenizer.learn import trainer
from tokenizer.learn.count import WordCounts
from tokenizer.learn.trainer import BORDER, lay_out

# Few different bytes make many ties and many runs, where the two could disagree.
words = st.dictionaries(
    st.binary(max_size=40) | st.text("ab", max_size=40).map(str.encode), st.integers(1, 5), max_size=12
)


@settings(max_examples=200)
@given(words, st.integers(0, 60), st.integers(1, 4))
def test_the_fast_trainer_learns_what_the_naive_one_learns(words, num_merges, min_frequency):
    expected = naive.learn_merges(words, num_merges, min_frequency)
    assert trainer.learn_merges(words, num_merges, min_frequency) == expected


@pytest.mark.parametrize(
    "words",
    [
        {},
        {b"": 3},
        {b"": 3, b"a": 2, b"ab": 2},
        {b"a" * 1000: 1},
        {b"a" * n: 1 for n in range(30)},
        {b"ab" * 200 + b"ba" * 200: 1},
        {bytes(range(256)): 1},
        {bytes(range(256)) * 2: 1},
        {b"abcabd" * 50: 10**12, b"abd": 2**60},
        {bytes(random.Random(0).choices(b"abcd", k=3000)): 1},
    ],
    ids=[
        "no words",
        "empty word",
        "short words",
        "one byte",
        "growing runs",
        "alternating",
        "all different",
        "twice all different",
        "large counts",
        "long word",
    ],
)
def test_hard_cases(words):
    assert trainer.learn_merges(words, 300) == naive.learn_merges(words, 300)


@given(words, st.randoms())
def test_the_order_of_the_words_does_not_matter(words, shuffler):
    shuffled = list(words.items())
    shuffler.shuffle(shuffled)
    assert trainer.learn_merges(dict(shuffled), 60) == trainer.learn_merges(words, 60)


def test_equal_counts_go_to_the_smaller_left_then_right_token():
    assert trainer.learn_merges({b"zz": 2, b"yz": 2, b"yy": 2}, 2) == [
        (ord("y"), ord("y")),
        (ord("y"), ord("z")),
    ]


def test_the_tables_grow():
    # All 65,536 pairs of bytes fill the first tables; each merge of the growing stem then creates 256 more.
    words = {b"a" * 2**stem + bytes([last]): 2 for stem in range(9) for last in range(256)}
    words |= {bytes([first, second]): 2 for first in range(256) for second in range(256)}
    assert trainer.learn_merges(words, 4) == naive.learn_merges(words, 4)


def test_a_long_run_of_one_byte():
    # The token doubles while the pair occurs twice, that is, while three tokens are left.
    merges = trainer.learn_merges({b"a" * 200_000: 1}, 100)
    assert merges == [(97, 97)] + [(256 + i, 256 + i) for i in range(16)]


def test_learning_stops_at_min_frequency():
    assert trainer.learn_merges({b"ab": 2, b"cd": 3}, 9, min_frequency=3) == [(ord("c"), ord("d"))]
    assert trainer.learn_merges({b"ab": 2}, 9, min_frequency=3) == []
    assert trainer.learn_merges({b"ab": 1}, 9, min_frequency=1) == [(ord("a"), ord("b"))]


@given(st.dictionaries(st.binary(max_size=6), st.integers(1, 9)))
def test_the_words_stand_between_borders(words):
    corpus = lay_out(WordCounts.of(words))
    useful = [word for word in words if len(word) >= 2]
    expected = [BORDER]
    for word in useful:
        expected += [*word, BORDER]
    assert corpus.tokens.tolist() == expected
    assert corpus.tokens.dtype == corpus.words.dtype == np.int32
    for position, token in enumerate(corpus.tokens):
        if token >= 0:
            word = useful[corpus.words[position]]
            assert int(token) in word
            assert corpus.counts[corpus.words[position]] == words[word]
