from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from minigrad.generation.streaming import decoded, until


@given(st.text(max_size=40))
def test_a_letter_of_many_tokens_appears_when_it_is_whole(text):
    tok = tokenizer.train([], vocab_size=261)  # a token for each byte
    whole = text.encode("utf-8", "replace").decode()
    parts = list(decoded(tok.stream_decoder(), iter(tok.encode(whole))))
    assert "".join(parts) == whole
    assert all(part in whole for part in parts)


@given(st.lists(st.text(alphabet="ab", max_size=3), max_size=12), st.text(alphabet="ab", min_size=1, max_size=4))
def test_text_is_passed_on_up_to_the_stop_text_however_it_is_cut(parts, stop):
    shown = list(until(stop, iter(parts)))
    assert "".join(shown) == "".join(parts).partition(stop)[0]


@given(st.lists(st.text(alphabet="ab", max_size=3), max_size=12))
def test_nothing_is_held_back_for_longer_than_it_could_be_the_stop_text(parts):
    seen = shown = ""
    for part, text in zip(parts, until("ab", iter(parts)), strict=False):
        seen, shown = seen + part, shown + text
        if "ab" not in seen:
            assert shown == seen.removesuffix("a")
