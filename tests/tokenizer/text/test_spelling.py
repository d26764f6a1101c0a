from hypothesis import given
from hypothesis import strategies as st

from tokenizer.text.spelling import CHARACTERS, MARK, mark_spaces, spell, unmark_spaces, unspell


def test_each_byte_has_its_own_printable_character():
    assert sorted(CHARACTERS) == list(range(256))
    assert len(set(CHARACTERS.values())) == 256
    assert all(character.isprintable() and not character.isspace() for character in CHARACTERS.values())


def test_the_characters_are_those_of_gpt2():
    assert "".join(CHARACTERS[byte] for byte in b" \n\t\x00\x7f\xa0\xad") == "ĠĊĉĀġłŃ"
    assert "".join(CHARACTERS[byte] for byte in range(0x21, 0x7F)) == bytes(range(0x21, 0x7F)).decode()


@given(st.binary())
def test_unspell_undoes_spell(token):
    assert unspell(spell(token)) == token


def test_unspell_refuses_other_characters():
    assert unspell("a b") is None
    assert unspell("日") is None


@given(st.text())
def test_only_the_mark_itself_is_lost(text):
    marked = mark_spaces(text)
    assert " " not in marked
    assert unmark_spaces(marked) == (" " + text.replace(MARK, " ") if text else "")
