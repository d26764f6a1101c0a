import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import TokenizerError
from tokenizer.text.split import SPLITS, compiled, special_pattern


@pytest.mark.parametrize("name", SPLITS)
@given(text=st.text())
def test_the_words_tile_the_text(name, text):
    words = compiled(name).findall(text)
    assert "".join(words) == text
    assert all(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello world", ["Hello", " world"]),
        ("they'll don't I'm", ["they", "'ll", " don", "'t", " I", "'m"]),
        ("IT'S", ["IT", "'", "S"]),  # the pattern knows only small letters
        ("a  b\n\n c ", ["a", " ", " b", "\n\n", " c", " "]),
        ("x=12.5", ["x", "=", "12", ".", "5"]),
        ("été 日本語 привет", ["été", " 日本語", " привет"]),
        ("½ ² Ⅷ", ["½", " ²", " Ⅷ"]),
        ("a\u00a0b\x1cc", ["a", "\u00a0", "b", "\x1c", "c"]),
        ("", []),
    ],
)
def test_gpt2_words(text, words):
    assert compiled("gpt2").findall(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("in 1995", ["in", " ", "1", "9", "9", "5"]),
        ("a  7", ["a", "  ", "7"]),
        ("a  b", ["a", " ", " b"]),
        ("Ⅷ½", ["Ⅷ", "½"]),
    ],
)
def test_digits_are_words_of_their_own(text, words):
    assert compiled("digits").findall(text) == words


def test_none_keeps_the_text_whole():
    assert compiled("none").findall("two lines,\none word") == ["two lines,\none word"]


def test_an_unknown_split_gets_the_nearest_name():
    with pytest.raises(
        TokenizerError, match=r"unknown split 'gpt-2'.*gpt2, digits, .*none, or .*; did you mean 'gpt2'"
    ):
        compiled("gpt-2")


def test_the_longer_special_token_wins():
    pattern = special_pattern(["<a>", "<a>b", "[.*]"])
    assert pattern.split("x<a>bc<a>[.*]") == ["x", "<a>b", "c", "<a>", "", "[.*]", ""]
    assert special_pattern([]).split("x<a>") == ["x<a>"]
