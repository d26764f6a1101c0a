import warnings
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import TokenizerError
from tokenizer.learn import count
from tokenizer.learn.count import count_words
from tokenizer.text import chunks
from tokenizer.text.split import compiled

some_text = st.text() | st.lists(st.sampled_from(["the ", "fox", "日本", " 1", "<x>", "\n"])).map("".join)


def counted(*arguments, **options):
    return dict(count_words(*arguments, **options).items())


@given(st.lists(some_text), st.sampled_from(["gpt2", "gpt4", "none", r"\w+"]), st.integers(1, 3))
def test_the_counts_are_those_of_a_plain_loop(texts, split, threads):
    words = Counter(word for text in texts for word in compiled(split).findall(text))
    if split == r"\w+":
        words += Counter(gap for text in texts for gap in compiled(split).split(text) if gap)
    assert counted(texts, split, threads=threads) == {word.encode(): number for word, number in words.items()}


def test_more_words_than_the_tables_first_hold():
    texts = [f"{i} {i % 1000}" for i in range(30_000)]
    words = Counter(word for text in texts for word in compiled("gpt2").findall(text))
    assert counted(texts, "gpt2") == {word.encode(): number for word, number in words.items()}


@given(st.lists(some_text, max_size=8), st.integers(1, 9))
def test_chunks_change_nothing(texts, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_SIZE", size)
        assert counted(texts, "gpt4", threads=2) == counted(texts, "gpt4", threads=1)
        in_chunks = counted(texts, "gpt4")
    assert in_chunks == counted(texts, "gpt4")


def test_special_tokens_are_borders_and_not_counted():
    assert counted(["a<|end|>b", "a"], "none", ["<|end|>"]) == {b"a": 2, b"b": 1}


def test_texts_may_be_any_iterable_of_str():
    assert counted(iter(["to be", ""]), "gpt2") == {b"to": 1, b" be": 1}
    for texts, message in (("to be", r"pass \[text\]"), (["to be", b"or not"], "text 1 is a bytes, expected a str")):
        with pytest.raises(TokenizerError, match=message):
            count_words(texts, "gpt2", ["<x>"])


def test_progress_draws_nothing_when_there_is_no_terminal(capsys):
    count_words(["to be"], "gpt2", progress=True)
    assert capsys.readouterr() == ("", "")


def test_the_rarest_words_are_removed_with_a_warning(monkeypatch):
    monkeypatch.setattr(count, "MEMORY_PER_BYTE", count.MIN_MEMORY // 4_000)  # 4,000 bytes of different words
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 1_000)
    texts = [f" often{i % 20} rare{i}" for i in range(5_000)]
    results = []
    for threads in (1, 3):
        with pytest.warns(UserWarning, match=r"do not fit into max_memory=67,108,864 bytes: words seen \d+ times or"):
            results.append(count_words(texts, "none", max_memory=count.MIN_MEMORY, threads=threads))
    words = [dict(result.items()) for result in results]
    assert words[0] == words[1]
    assert len(results[0].word_bytes) <= 4_000
    with pytest.warns(UserWarning, match="removed while counting"):
        words = dict(count_words(texts, r"\w+", max_memory=count.MIN_MEMORY).items())
    for i in range(20):
        assert words[f"often{i}".encode()] == 250


def test_too_little_memory_is_named():
    with pytest.raises(TokenizerError, match=r"max_memory=1,000 bytes is too little: give 67,108,864 or more"):
        count_words([], "gpt2", max_memory=1_000)


def test_words_of_which_none_can_be_kept(monkeypatch):
    monkeypatch.setattr(count, "MEMORY_PER_BYTE", count.MIN_MEMORY // 10)
    with (
        warnings.catch_warnings(),
        pytest.raises(TokenizerError, match="seen 1 times or less were removed while counting, and none is left"),
    ):
        count_words(["a text longer than ten letters"], "none", max_memory=count.MIN_MEMORY)


def test_a_word_that_needs_all_the_memory_is_named_by_its_length(monkeypatch):
    monkeypatch.setattr(count, "MEMORY_PER_BYTE", count.MIN_MEMORY // 10)
    message = "the longest has 29 bytes: .*; divide such a word by spaces"
    with pytest.raises(TokenizerError, match=message):
        count_words(["a", "x" * 29], "gpt2", max_memory=count.MIN_MEMORY)
