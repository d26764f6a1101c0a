import re

import numba
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenizer
from tokenizer import TokenizerError, naive
from tokenizer.encode import encoder
from tokenizer.encode.encoder import WORDS, Encoder
from tokenizer.text import chunks
from tokenizer.vocabulary import Vocabulary

tok = tokenizer.train(["naïve café 日本語 👩‍👩‍👧 naïve café 日本語 👩‍👩‍👧"], vocab_size=400)
text = st.text("ab", max_size=60) | st.text(max_size=30)


def encoder_of(pairs, split="none"):
    """An encoder whose ids are those of the naive code."""
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in pairs:
        tokens.append(tokens[left] + tokens[right])
    merges = tuple((tokens[left], tokens[right]) for left, right in pairs)
    ids = {token: number for number, token in enumerate(tokens)}
    return Encoder(Vocabulary(split=split, ids=ids, merges=merges, specials={}, size=len(tokens)))


@settings(max_examples=200)
@given(st.lists(text, min_size=1), text)
def test_the_fast_encoder_merges_as_the_naive_one(corpus, new):
    pairs = naive.learn_merges(dict.fromkeys(map(str.encode, corpus), 2), 60)
    for word in [*corpus, new]:
        assert list(encoder_of(pairs).encode(word)) == naive.encode_word(word.encode(), pairs)


def test_a_word_too_long_for_the_workspace_leaves_the_words_and_texts_before_it():
    texts, pairs = ["a b", "", "b " + "a" * 1000 + " b", "a" * 700, "b a"], [(97, 97), (256, 256)]
    words = [re.findall(" ?[ab]+", text) for text in texts]
    wanted = [[number for word in each for number in naive.encode_word(word.encode(), pairs)] for each in words]
    assert [list(ids) for ids in encoder_of(pairs, "gpt2").encode_batch(texts)] == wanted
    assert [list(encoder_of(pairs, "gpt2").encode(text)) for text in texts] == wanted


def test_known_words_give_the_same_ids_again():
    pairs = naive.learn_merges({b" the": 9, b" then": 3}, 20)
    once = encoder_of(pairs, "gpt2")
    first = list(once.encode(" the then the"))
    assert list(once.encode(" the then the")) == first
    assert list(encoder_of(pairs, "gpt2").encode(" then")) == first[1:-1] == list(once.encode(" then"))


def test_a_cache_full_of_words_is_emptied(monkeypatch):
    monkeypatch.setattr(encoder, "CACHED_WORDS", 10)
    small = encoder_of([(97, 98)], "gpt2")
    for i in range(50):
        assert list(small.encode(f" ab {i:08} ab")) == [32, 256, 32, *f"{i:08}".encode(), 32, 256]
    assert small._idle[0][0].used[WORDS] <= 10


def test_a_cache_full_of_tokens_is_emptied(monkeypatch):
    # Words of 64 bytes that no merge shortens fill the arrays of bytes and tokens before that of words.
    monkeypatch.setattr(encoder, "CACHED_WORDS", 20)
    small = encoder_of([(97, 98)], "gpt2")
    for i in range(100):
        word = f"{i:064}"
        assert list(small.encode(word)) == list(word.encode())


@pytest.mark.parametrize("length", [10_001] if numba.config.DISABLE_JIT else [10_001, 1_000_000])
def test_a_long_run_of_one_letter(length):
    doubling = [(97, 97)] + [(256 + i, 256 + i) for i in range(18)]
    ids = list(encoder_of(doubling).encode("a" * length))
    # Greedy halving leaves the largest token once or more, then the binary digits of the rest.
    sizes = [1 if number == 97 else 2 ** (number - 255) for number in ids]
    assert sum(sizes) == length
    assert sizes == sorted(sizes, reverse=True)
    assert len([size for size in sizes if size < 2**19]) == (length % 2**19).bit_count()


@given(texts=st.lists(st.text("a 1\n!'sé,")), threads=st.integers(1, 3), size=st.integers(1, 6))
def test_a_batch_in_chunks_on_threads_is_each_text_by_itself(texts, threads, size):
    expected = [tok.encode(text) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_SIZE", size)
        assert [ids.tolist() for ids in tok.encode_batch(texts, threads=threads)] == expected
        assert [tok.encode(text) for text in texts] == expected


def test_a_lone_surrogate_is_refused():
    for split in ("gpt2", "none", r"\w+"):
        with pytest.raises(TokenizerError, match="lone surrogate"):
            encoder_of([], split).encode("a \udc00")


def test_the_ids_keep_no_large_array():
    small = encoder_of([(97, 97)] + [(256 + i, 256 + i) for i in range(9)])
    (ids,) = small.encode_batch(["a" * 1024])
    assert ids.tolist() == [256 + 9]
    assert ids.base is None or ids.base.size == ids.size
