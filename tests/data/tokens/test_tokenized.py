"""The number of bytes of each token, which turns a loss into bits per byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from minigrad.data.corpus import Corpus
from minigrad.data.tokens.token_files import prepare
from minigrad.data.tokens.tokenized import TokenizedCorpus, token_byte_lengths
from tests.tokenizer import byte_fallback
from tokenizer.vocabulary import Vocabulary

TEXTS = ["to be or not to be, that is the question", "größer als π ist 🙂", "whether 'tis nobler in the mind " * 9]


TOK = tokenizer.train(TEXTS * 2, vocab_size=290)


LENGTHS = token_byte_lengths(TOK, TOK.vocab_size)


@given(st.text())
def test_the_lengths_of_the_tokens_of_a_text_are_its_bytes(text):
    whole = text.encode("utf-8", "replace").decode()
    ids = TOK.encode(whole)
    assert int(LENGTHS[ids].sum()) == len(whole.encode())


def test_a_token_of_one_character_of_two_bytes_has_two_bytes():
    tok = tokenizer.train(["é é é"], vocab_size=262)
    assert token_byte_lengths(tok, 262)[tok.encode("é")].tolist() == [2]


def test_the_space_that_byte_fallback_puts_before_each_document_is_no_byte_of_the_text():
    tok, documents = tokenizer.Tokenizer(byte_fallback.vocabulary()), ["to be", "or", "the é"]
    predicted = prepare(documents, tok).tokens[1:]
    lengths = token_byte_lengths(tok, tok.vocab_size)
    assert int(lengths[predicted].sum()) == sum(len(text.encode()) for text in documents)


def test_special_and_unused_ids_have_no_bytes():
    unused = tokenizer.train(["ab"], vocab_size=280)
    lengths = token_byte_lengths(unused, 283)
    assert lengths.shape == (283,)
    assert not lengths[[*unused.specials.values(), *range(unused.used, 283)]].any()
    assert lengths.sum() == 256


def test_ids_may_have_gaps_and_any_order():
    ids = {bytes([byte]): 300 - byte for byte in range(256)} | {b"ab": 20}
    vocabulary = Vocabulary("gpt2", ids, ((b"a", b"b"),), {"<|endoftext|>": 500}, 501)
    lengths = token_byte_lengths(tokenizer.Tokenizer(vocabulary), 501)
    assert lengths[20] == 2
    assert lengths[45:301].tolist() == [1] * 256
    assert lengths.sum() == 258


def test_a_corpus_is_encoded_in_its_three_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    corpus = Corpus("words", "words", tuple(f"document {number} " + TEXTS[0] for number in range(40)))
    parts = corpus.split()
    text = TokenizedCorpus.of(corpus, TOK)
    each = ((text.train, parts.train), (text.validation, parts.validation), (text.test, parts.test))
    for part, documents in each:
        assert part.num_bytes == sum(len(document.encode()) for document in documents)
        assert int(text.byte_lengths[part.tokens].sum()) == part.num_bytes  # an end of text has no bytes
        assert TOK.decode_bytes(part.tokens[part.tokens != TOK.end_of_text_id]) == "".join(documents).encode()


def test_a_model_may_know_more_tokens_than_the_tokenizer(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    corpus = Corpus("words", "words", (TEXTS[0],), (TEXTS[1],))
    assert TokenizedCorpus.of(corpus, TOK, TOK.vocab_size + 9).byte_lengths.shape == (TOK.vocab_size + 9,)
