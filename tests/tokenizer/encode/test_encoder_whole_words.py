from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tokenizer import TokenizerError
from tokenizer.encode.encoder import Encoder, WholeWordEncoder, encoder_of
from tokenizer.text.split import compiled

tok = tokenizer.train(["to be or not to be, abc abd 日本"] * 3, vocab_size=300)
WORDS = {b"xyz": 300, b" xyz": 301, "日本語".encode(): 302, b"\xff\xfe": 303}
more = replace(tok.vocabulary, ids=tok.vocabulary.ids | WORDS, size=304, whole_words=True)
whole = tokenizer.Tokenizer(more)
uncut = tokenizer.Tokenizer(replace(tok.vocabulary, split="none"))
texts = st.text() | st.text("xyz 日本語to")


def test_only_tokens_that_merges_do_not_reach_are_looked_up():
    assert WholeWordEncoder(more).unreached == {"xyz": 300, " xyz": 301, "日本語": 302}


def test_without_such_tokens_the_encoder_is_the_plain_one():
    assert isinstance(encoder_of(more), WholeWordEncoder)
    assert type(encoder_of(tok.vocabulary)) is Encoder
    assert type(encoder_of(replace(tok.vocabulary, whole_words=True))) is Encoder


@given(texts)
def test_a_word_is_its_token_and_any_other_is_merged(text):
    ids = whole.encode(text)
    words = compiled("gpt2").findall(text)
    rows = [[WORDS[word.encode()]] if word.encode() in WORDS else uncut.encode(word) for word in words]
    assert ids == [number for row in rows for number in row]
    assert whole.decode(ids) == text


def test_a_lone_surrogate_is_refused():
    with pytest.raises(TokenizerError, match="lone surrogate"):
        encoder_of(more).encode("xyz \udc00")
