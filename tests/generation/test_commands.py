"""The commands between the messages of a person: which lines they are, and what becomes of the others."""

from __future__ import annotations

import pytest

from minigrad.generation.commands import messages


def read(*inputs: str) -> tuple[list[str], list[str], list[str]]:
    """Return the messages, the remarks, and what /save was given."""
    told, saved = list[str](), list[str]()
    return list(messages(inputs, "HELP", told.append, {"/save": saved.append})), told, saved


def test_a_command_is_obeyed_and_every_other_line_is_a_message() -> None:
    assert read("one", "", "/save  a b ", " /save", "/save", "two/exit") == (
        ["one", "", " /save", "two/exit"],
        [],
        ["a b", ""],
    )


@pytest.mark.parametrize("end", ["/exit", "/quit ", "/bye now"])
def test_three_words_end_the_messages(end: str) -> None:
    assert read("one", end, "two") == (["one"], [], [])


def test_an_unknown_command_is_refused_with_the_help() -> None:
    assert read("/help", "/usr/bin is a folder", "one") == (
        ["one"],
        ["HELP", "unknown command /usr/bin; HELP. A message that begins with / needs a space before it"],
        [],
    )
