"""Every token has a name that can be read and cannot become markup."""

from __future__ import annotations

from minigrad.pages.explain.tokens import TokenNames


def test_text_signs_specials_bytes_and_unused_ids(tok):
    names = TokenNames(tok)
    byte = {character: tok.encode(character)[0] for character in " \n\t\r<a"}
    assert [names.running(byte[each]) for each in " \n\t\r<a"] == [" ", "↵", "⇥", "␍", "&lt;", "a"]
    assert names.alone(byte[" "]) == "·"
    assert [names.alone(each) for each in tok.encode("é")] == ["\\xc3", "\\xa9"]
    assert names.alone(tok.end_of_text_id) == "&lt;|endoftext|&gt;"
    assert names.alone(100_000) == "[100000]"


def test_a_control_character_is_no_control_character_on_the_page(tok):
    assert TokenNames(tok).running(tok.encode("\x1b")[0]) == "\\x1b"
