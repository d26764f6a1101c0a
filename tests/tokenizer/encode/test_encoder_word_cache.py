import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.encode.encoder import BYTES, FIRST, IDS, MAX_LENGTH, NUMBER, WORDS, WordCache, cache_word, find_word
from tokenizer.structures.hash_table import hash_of


def as_array(word):
    return np.frombuffer(bytearray(word), np.uint8)


def add(cache, word, tokens):
    text = as_array(word)
    ids = np.zeros(MAX_LENGTH, np.int32)
    ids[: len(tokens)] = tokens
    cache_word(cache, text, 0, len(word), hash_of(text, 0, len(word)), ids, len(tokens))


def find(cache, word):
    text = as_array(b"  " + word)
    row = find_word(cache, text, 2, len(text), hash_of(text, 2, len(text)))
    if row < 0:
        return None
    first, number = cache.rows[row, FIRST], cache.rows[row, NUMBER]
    return cache.ids[first : first + number].tolist()


@given(st.dictionaries(st.binary(min_size=1, max_size=8), st.lists(st.integers(0, 999), max_size=8), max_size=20))
def test_every_word_is_found_with_its_tokens(words):
    cache = WordCache.of(20)
    for word, tokens in words.items():
        assert find(cache, word) is None
        add(cache, word, tokens)
    assert all(find(cache, word) == tokens for word, tokens in words.items())
    assert cache.used.tolist() == [len(words), sum(map(len, words)), sum(map(len, words.values()))]


@pytest.mark.parametrize(
    ("length", "num_tokens", "most"),
    [(4, 1, 5), (MAX_LENGTH, 1, 2), (4, MAX_LENGTH, 1)],
    ids=["words", "bytes", "ids"],
)
def test_a_full_cache_is_emptied(length, num_tokens, most):
    cache, used = WordCache.of(5), []
    for i in range(30):
        word = f"{i:04}".encode().ljust(length, b"x")
        add(cache, word, [i] * num_tokens)
        assert find(cache, word) == [i] * num_tokens
        used.append(int(cache.used[WORDS]))
        assert cache.used[BYTES] <= len(cache.word_bytes)
        assert cache.used[IDS] <= len(cache.ids)
    assert used == [1 + i % most for i in range(30)]
