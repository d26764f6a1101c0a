import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import TokenizerError
from tokenizer.text.split import SPLITS, compiled, pattern_of, words_of


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


@pytest.mark.parametrize("name", ["", "gpt-4", "one_word", None])
def test_a_mere_name_is_never_a_pattern(name):
    with pytest.raises(TokenizerError, match="unknown split"):
        pattern_of(name)


def test_a_pattern_is_its_own_split():
    assert pattern_of(r"\w+ ?") == r"\w+ ?"
    with pytest.raises(TokenizerError, match=r"the split '\(a' is not a regular expression: missing \)"):
        compiled("(a")


@given(text=st.text("ab ,") | st.text())
def test_what_a_pattern_leaves_out_is_a_word_too(text):
    words = words_of(text, compiled(r"\w+ ?"))
    assert "".join(words) == text
    assert all(words)
    assert compiled(r"\w+ ?").findall(text) == [word for word in words if regex.match(r"\w", word)]
