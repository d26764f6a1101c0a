"""Texts that are written together are shown in turn; and the speed counts what came after the first tokens."""

from __future__ import annotations

import re
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from minigrad.generation.console import Speed, alternatives, in_turn
from minigrad.generation.continuation import Token


def token(sample: int, position: int, text: str, ended: str = "", prompt: int = 0) -> Token:
    made = Token(7)
    made.prompt, made.sample, made.position, made.text, made.ended = prompt, sample, position, text, ended
    made.drafted, made.context = False, None
    made.log_probability, made.alternatives = -0.5, ((7, -0.5), (8, -1.25))
    return made


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6), samples=st.integers(1, 3))
def test_all_of_a_text_comes_before_the_next(lengths, samples):
    tokens = [
        token(n % samples, position, f"{n}.{position} ", "length" if position + 1 == length else "", n // samples)
        for position in range(5)
        for n, length in enumerate(lengths)
        if position < length
    ]
    shown = list(in_turn(tokens, samples))
    assert [number for number, *_ in shown] == sorted(number for number, *_ in shown)
    for n, length in enumerate(lengths):
        parts = [(part, ended) for number, part, ended in shown if number == n]
        assert "".join(part for part, _ in parts) == "".join(f"{n}.{position} " for position in range(length))
        assert [ended for _, ended in parts] == [False] * (len(parts) - 1) + [True]


def test_the_first_text_is_shown_as_it_is_written():
    seen = []

    def watched():
        for each in (token(0, 0, "a"), token(1, 0, "x"), token(0, 1, "b", "end"), token(1, 1, "y", "end")):
            seen.append(each.text)
            yield each

    shown = in_turn(watched(), samples=2)
    assert next(shown) == (0, "a", False)
    assert seen == ["a"]
    assert list(shown) == [(0, "b", True), (1, "x", False), (1, "y", True)]


def test_the_speed_counts_the_tokens_after_the_first_of_each_text():
    speed = Speed()
    assert speed.summary() == ""
    speed.note(token(0, 0, "a"))
    speed.note(token(1, 0, "x"))
    assert speed.summary() == ""
    speed.note(token(0, 1, "b", "end"))
    speed.started, speed.first, speed.newest = 1.0, 1.5, 1.75
    assert speed.summary() == "3 tokens, 4 tokens/s, after 0.50 s for the first"
    last = token(1, 1, "y", "end")
    last.drafted = True
    speed.note(last)
    said = r"2 texts, 4 tokens, [\d,]+ tokens/s, after 0.50 s for the first; 25% of them proposed by the draft"
    assert re.fullmatch(said, speed.summary())


def test_each_token_is_listed_with_the_most_likely_ones_in_its_place():
    tokens = [token(1, 0, "b"), token(1, 0, "c", prompt=1), token(0, 0, "a")]
    tokenizer = SimpleNamespace(vocab_size=8, decode_bytes=lambda ids: f"t{ids[0]}".encode())
    lines = alternatives(tokens, tokenizer).splitlines()
    # The model has more rows than the tokenizer has tokens, and the one of number 8 has no text.
    assert lines == [" -0.500 't7'            -0.500 't7'            -1.250 ''", "---", lines[0], "---", lines[0]]


def test_the_changes_of_an_adaptive_context_are_listed():
    speed = Speed()
    for position, context in enumerate([256, 256, 204, 204, 306]):
        made = token(0, position, "a")
        made.context = context
        speed.note(made)
    assert speed.summary().endswith("; context: 256 from token 0 on, 204 from token 2 on, 306 from token 4 on")


def test_of_texts_that_are_written_together_the_context_of_the_first_is_listed():
    speed = Speed()
    for position in range(3):
        for sample, context in enumerate((256, 128)):
            made = token(sample, position, "a", "end" if position == 2 else "")
            made.context = context
            speed.note(made)
    assert speed.summary().endswith("; context of the first: 256 from token 0 on")
