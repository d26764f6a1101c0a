from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from minigrad.generation.streaming import decoded, until


@given(st.text(max_size=40))
def test_a_character_of_several_tokens_is_yielded_when_it_is_complete(text):
    tok = tokenizer.train([], vocab_size=261)  # a token for each byte
    whole = text.encode("utf-8", "replace").decode()
    parts = list(decoded(tok.stream_decoder(), iter(tok.encode(whole))))
    assert "".join(parts) == whole
    assert all(part in whole for part in parts)


@given(st.lists(st.text(alphabet="ab", max_size=3), max_size=12), st.text(alphabet="ab", min_size=1, max_size=4))
def test_text_is_yielded_up_to_the_stop_string_however_it_is_split(parts, stop):
    shown = list(until(stop, iter(parts)))
    assert "".join(shown) == "".join(parts).partition(stop)[0]


@given(st.lists(st.text(alphabet="ab", max_size=3), max_size=12))
def test_text_is_held_back_only_while_it_could_be_the_stop_string(parts):
    seen = shown = ""
    for part, text in zip(parts, until("ab", iter(parts)), strict=False):
        seen, shown = seen + part, shown + text
        if "ab" not in seen:
            assert shown == seen.removesuffix("a")
