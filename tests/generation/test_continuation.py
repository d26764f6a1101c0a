"""One text: the token, the text that is certain with it, and the reason of its end."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import tokenizer
from minigrad.generation.continuation import Continuation, DrawingRules, Token
from minigrad.generation.sampling import as_mask
from minigrad.generation.settings import Sampling

TOK = tokenizer.train([], vocab_size=261)  # a token for each byte
SIZE = TOK.vocab_size
LOGITS = np.zeros(SIZE, np.float32)


def fresh(prompt=(0,), sample=0, **settings) -> Continuation:
    ends = as_mask(TOK.specials.values(), SIZE)
    return Continuation(
        DrawingRules(Sampling(**settings), np.zeros(SIZE, bool), ends, ends, TOK), list(prompt), 0, sample
    )


def added(text: Continuation, ids: list[int]) -> list[Token]:
    found = []
    for token in ids:
        found.append(text.add(token, LOGITS))
        if found[-1].ended:
            break
    return found


@given(st.text(max_size=20), st.sampled_from(["end", "length"]))
def test_the_texts_of_the_tokens_are_the_whole_text(words, reason):
    ids = TOK.encode(words.encode("utf-8", "replace").decode())
    if reason == "end":
        tokens = added(fresh(), [*ids, TOK.end_of_text_id])
    else:
        ids = ids or [50]
        tokens = added(fresh(tokens=len(ids)), ids)
    assert "".join(token.text for token in tokens) == TOK.decode(ids)
    assert [token.ended for token in tokens] == [""] * (len(tokens) - 1) + [reason]
    assert [token.position for token in tokens] == list(range(len(tokens)))


def test_what_was_held_back_comes_with_the_token_that_ends_the_text():
    half = TOK.encode("aé")[:2]
    assert [token.text for token in added(fresh(), [*half, TOK.end_of_text_id])] == ["a", "", "\ufffd"]
    assert [token.text for token in added(fresh(tokens=2), half)] == ["a", "\ufffd"]
    assert [token.text for token in added(fresh(stop="bc", tokens=2), TOK.encode("ab"))] == ["a", "b"]


@given(st.lists(st.integers(0, 260), min_size=1, max_size=6), st.lists(st.integers(5, 260), min_size=1, max_size=6))
@example(TOK.encode_bytes(b"a\xe2"), TOK.encode_bytes(b"\x82\xacx"))
def test_a_character_that_begins_in_the_prompt_is_completed(prompt, ids):
    decoder = TOK.stream_decoder()
    before = "".join(map(decoder.push, prompt))
    tokens = added(fresh(prompt, tokens=len(ids)), ids)
    assert before + "".join(token.text for token in tokens) == TOK.decode([*prompt, *ids])


def test_a_prompt_may_end_with_ids_beyond_those_of_the_tokenizer():
    rules = fresh().rules
    assert added(Continuation(rules, [SIZE + 3], 0, 0), TOK.encode("a"))[0].text == "a"


def test_a_stop_string_of_several_tokens_ends_the_text_before_it():
    tokens = added(fresh(stop=["bc", "zz"]), TOK.encode("abcd"))
    assert [(token.text, token.ended) for token in tokens] == [("a", ""), ("", ""), ("", "stop")]


def test_the_random_number_is_that_of_the_place():
    text, other = fresh(sample=3, seed=5), fresh(sample=3, seed=5)
    text.add(50, LOGITS)
    assert text.uniform() == other.uniform(ahead=1) != other.uniform()
    assert fresh(sample=4, seed=5).uniform() != other.uniform()


def test_a_token_is_its_id():
    token = fresh().next(np.where(np.arange(SIZE) == 70, 50.0, 0.0))
    assert token == 70
    assert np.array([token]).dtype.kind == "i"
    assert TOK.decode([token]) == token.text
