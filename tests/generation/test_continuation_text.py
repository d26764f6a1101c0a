"""Tokens as text: whole characters, and an end before a stop string however the text is split."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

import tokenizer
from minigrad.generation.continuation import TextStream

TOK = tokenizer.train([], vocab_size=261)  # a token for each byte
PARTS = st.lists(st.text(alphabet="ab", max_size=3), max_size=12)
STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3)


class Parts:
    """A decoder whose tokens are indices into a list of texts."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = parts

    def push(self, token: int) -> str:
        return self.parts[token]

    def flush(self) -> str:
        return ""


def shown(parts: list[str], stops: list[str]) -> str:
    stream = TextStream(Parts(parts), stops)
    text = ""
    for token in range(len(parts)):
        text += stream.push(token)
        if stream.stopped:
            return text
    return text + stream.flush()


def up_to_the_stop(text: str, stops: list[str]) -> str:
    """The definition: letter by letter, until the text ends with a stop string; of two the longer."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))]
    return text


@given(st.text(max_size=40))
def test_a_character_of_several_tokens_is_returned_when_it_is_complete(text):
    whole = text.encode("utf-8", "replace").decode()
    stream = TextStream(TOK.stream_decoder())
    parts = [stream.push(token) for token in TOK.encode(whole)] + [stream.flush()]
    assert "".join(parts) == whole
    assert all(part in whole for part in parts)


@given(PARTS, STOPS)
@example(["x", "ab", "c"], ["abc", "b"])
def test_text_is_returned_up_to_the_first_stop_string_however_it_is_split(parts, stops):
    assert shown(parts, stops) == up_to_the_stop("".join(parts), stops)


@given(PARTS)
def test_text_is_held_back_only_while_it_could_be_the_stop_string(parts):
    stream, seen, returned = TextStream(Parts(parts), ["ab"]), "", ""
    for token, part in enumerate(parts):
        seen, returned = seen + part, returned + stream.push(token)
        if "ab" not in seen:
            assert returned == seen.removesuffix("a")
        if stream.stopped:
            assert stream.flush() == ""
            return
