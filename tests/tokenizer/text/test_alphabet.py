import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import TokenizerError
from tokenizer.text.alphabet import LETTERS, spell, unspell, utf8


def test_each_byte_has_its_own_printable_letter():
    assert sorted(LETTERS) == list(range(256))
    assert len(set(LETTERS.values())) == 256
    assert all(letter.isprintable() and not letter.isspace() for letter in LETTERS.values())


def test_the_letters_are_those_of_gpt2():
    assert "".join(LETTERS[byte] for byte in b" \n\t\x00\x7f\xa0\xad") == "ĠĊĉĀġłŃ"
    assert "".join(LETTERS[byte] for byte in range(0x21, 0x7F)) == bytes(range(0x21, 0x7F)).decode()


@given(st.binary())
def test_unspell_undoes_spell(token):
    assert unspell(spell(token)) == token


def test_unspell_refuses_other_characters():
    assert unspell("a b") is None
    assert unspell("日") is None


@given(st.text())
def test_utf8_is_utf8(text):
    assert utf8(text).decode() == text


def test_a_lone_surrogate_is_named_with_its_place():
    with pytest.raises(TokenizerError, match=r"U\+D83D at character 2, in 'ab\\ud83dcd'.*errors='replace'"):
        utf8("ab\ud83dcd")
