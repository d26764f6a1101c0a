import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import TokenizerError
from tokenizer.text import chunks
from tokenizer.text.chunks import last_border
from tokenizer.text.scanner import Scanner
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
    assert [word for part in parts for word in scanner.words(part)] == scanner.words(text)


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


def test_anything_but_texts_is_named():
    with pytest.raises(TokenizerError, match=r"texts is one string, .* pass \[text\]"):
        list(chunks.chunks("abc", may_cut=True))
    with pytest.raises(TokenizerError, match="text 1 is a bytes, expected a str"):
        list(chunks.chunks(["a", b"b"], may_cut=True))
