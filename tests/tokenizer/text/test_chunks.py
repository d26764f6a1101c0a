import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenizer.words import words
from tokenizer import TokenizerError
from tokenizer.text import chunks
from tokenizer.text.chunks import last_border, map_in_order, num_threads
from tokenizer.text.split import Scanner
from tokenizer.text.word_rules import RULES

some_text = (
    st.text()
    | st.text("a 1\n!'sl日\u00a0\u2028,")
    | st.lists(st.sampled_from(["it's ", "a  b\n\n", "12 ", "，"])).map("".join)
)


@pytest.mark.parametrize("split", [name for name in RULES if name != "none"])
@given(text=some_text, size=st.integers(1, 8))
def test_cutting_a_text_at_a_border_changes_no_word(split, text, size):
    scanner = Scanner(split)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_SIZE", size)
        parts = [part for chunk in chunks.chunks([text], may_cut=True) for part in chunk.parts]
    assert "".join(parts) == text
    assert [word for part in parts for word in words(scanner, part)] == words(scanner, text)


def test_long_texts_are_cut_and_short_ones_share_a_chunk(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 8)
    found = list(chunks.chunks(["to be or not", "a", "b", "", "none left"], may_cut=True))
    assert [chunk.parts for chunk in found] == [["to be", " or not"], ["a", "b", "", "none", " left"]]
    assert [chunk.owners for chunk in found] == [[0, 0], [1, 2, 3, 4, 4]]
    assert [chunk.parts for chunk in chunks.chunks(["to be or not"], may_cut=False)] == [["to be or not"]]


def test_the_last_border():
    assert last_border("it's naïve, so", 0, 14) == 11
    assert last_border("it's naïve, so", 0, 11) == 10
    assert last_border("it's naïve, so", 5, 9) == 5
    assert last_border("", 0, 0) == 0
    assert last_border("it's<s>", 0, 7, ["<s>"]) == 4  # and not before the last character of the name


def test_anything_but_texts_is_named():
    with pytest.raises(TokenizerError, match=r"texts is one string, .* pass \[text\]"):
        list(chunks.chunks("abc", may_cut=True))
    with pytest.raises(TokenizerError, match="text 1 is a bytes, expected a str"):
        list(chunks.chunks(["a", b"b"], may_cut=True))


def test_a_long_run_of_letters_is_searched_once(monkeypatch):
    searched = []

    def counting(text, start, stop):
        searched.append(stop - start)
        return last_border(text, start, stop)

    monkeypatch.setattr(chunks, "last_border", counting)
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 10)
    assert "".join(chunks.cut("x" * 1_000)) == "x" * 1_000
    assert sum(searched) < 1_000 * 1.3


def test_an_accent_stays_with_its_letter(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 5)
    assert not [part for part in chunks.cut("cafe\u0301 " * 9) if part.startswith("\u0301")]


def test_threads():
    assert num_threads(3) == 3
    assert num_threads(None) >= 1
    with pytest.raises(TokenizerError, match="threads=0: expected 1 or more"):
        num_threads(0)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_and_only_a_few_items_are_taken_ahead(threads):
    taken = []

    def items():
        for i in range(20):
            taken.append(i)
            yield i

    for number, result in enumerate(map_in_order(lambda i: i * i, items(), threads)):
        assert result == number * number
        assert len(taken) <= number + threads + 1


def test_items_are_worked_on_at_the_same_time():
    both = threading.Barrier(2, timeout=60)

    def meet(item):
        both.wait()  # passes only if two threads are here
        return item

    assert list(map_in_order(meet, range(4), 2)) == list(range(4))


def test_an_error_in_a_thread_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(lambda i: 1 // i, [1, 0, 1], 2))
