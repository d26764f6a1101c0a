"""Every way to learn merges, from the plainest to the fastest, learns the same."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenizer
from tokenizer import naive
from tokenizer.learn import incremental, trainer
from tokenizer.learn.count import MIN_MEMORY, WordCounts, count_words

LADDER = [naive.learn_merges, incremental.learn_merges, trainer.learn_merges]
# Few different bytes make many ties and many runs, where the ways could disagree.
word = st.binary(max_size=12) | st.text("ab", max_size=40).map(str.encode) | st.integers(0, 60).map(lambda n: b"a" * n)
document = st.text(max_size=40) | st.text("ab c", max_size=60) | st.integers(0, 300).map(lambda n: "a" * n)


def agree(words, num_merges, min_frequency):
    found = [learn(words, num_merges, min_frequency) for learn in LADDER]
    return all(merges == found[0] for merges in found)


@settings(max_examples=200)
@given(st.lists(word, max_size=30), st.integers(0, 60), st.integers(1, 4))
def test_all_ways_learn_the_same(words, num_merges, min_frequency):
    assert naive.learn_from_all(words, num_merges, min_frequency) == naive.learn_merges(
        Counter(words), num_merges, min_frequency
    )
    assert agree(Counter(words), num_merges, min_frequency)


@given(st.lists(document, max_size=6), st.sampled_from(["gpt2", "gpt4", "none"]))
def test_all_ways_learn_the_same_from_texts(texts, split):
    assert agree(dict(count_words(texts, split).items()), 50, 2)


@pytest.mark.parametrize(
    "words",
    [
        [],
        [b""],
        [b"", b"", b"a", b"a"],
        [b"a" * 5000],
        [bytes(range(256))],
        [bytes(range(256)), bytes(range(255, -1, -1))] * 2,
        [b"ab" * 900 + b"ba" * 900, b"aba" * 500],
        [bytes([i % 7, i % 3]) * 40 for i in range(60)],
    ],
    ids=["nothing", "empty", "short", "one byte", "all different", "there and back", "huge", "overlapping"],
)
def test_hard_cases(words):
    assert agree(Counter(words), 80, 1)
    assert agree(Counter(words), 80, 2)


def test_the_comparison_can_fail(monkeypatch):
    # A merge from right to left differs in a run of three.
    backwards = lambda ids, pair, new: naive.merge(ids[::-1], pair[::-1], new)[::-1]  # noqa: E731
    assert agree({b"aaab": 3}, 4, 2)
    monkeypatch.setattr(incremental, "merge", backwards)
    assert not agree({b"aaab": 3}, 4, 2)


def test_counts_are_64_bits_wide():
    large = WordCounts.of({b"abc": 2**61, b"bc": 2**61, b"ab": 2**60})
    assert trainer.learn_merges(large, 1) == [(ord("b"), ord("c"))]


@given(st.lists(document, max_size=6), st.integers(1, 3))
def test_any_number_of_threads_learns_the_same(texts, threads):
    assert tokenizer.train(texts, 300, threads=threads).fingerprint() == tokenizer.train(texts, 300).fingerprint()


def test_tables_beyond_the_memory_are_refused():
    message = r"learning these merges takes [\d,]+ bytes, more than max_memory=1,000; give more memory"
    with pytest.raises(tokenizer.TokenizerError, match=message):
        trainer.learn_merges({b"abab": 2}, 5, max_memory=1_000)


def test_training_keeps_within_its_memory():
    # Words that hardly repeat: counting does not compress them, and each creates many pairs.
    rng = np.random.default_rng(0)
    texts = [
        " ".join([word.tobytes().decode() for word in rng.integers(97, 123, (9_000, 9), np.uint8)]) for _ in range(9)
    ]
    tokenizer.train(texts[:1] * 2, 400)  # loads the kernels, which are not the tables
    tracemalloc.start()
    try:
        with pytest.warns(UserWarning, match="do not fit into max_memory"):
            tokenizer.train((text + text for text in texts), 2_000, max_memory=MIN_MEMORY)
        assert tracemalloc.get_traced_memory()[1] < MIN_MEMORY
    finally:
        tracemalloc.stop()
