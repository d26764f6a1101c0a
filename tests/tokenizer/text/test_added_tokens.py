import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tokenizer import SPECIAL_TOKENS, TokenizerError
from tokenizer.text.added_tokens import AddedTokens, special_pattern
from tokenizer.text.unicode import compose

CORPUS = ["to be or not to be, é or e\u0301", "<tool> is a word here"] * 3
tok = tokenizer.train(CORPUS, vocab_size=330)
parts = st.lists(st.text(max_size=3) | st.sampled_from([*SPECIAL_TOKENS, "<tool>", "   ", "e\u0301", "to be"]))
some_text = parts.map("".join)


def changed(**fields):
    return tokenizer.Tokenizer(replace(tok.vocabulary, **fields))


def test_the_longer_special_token_wins():
    pattern = special_pattern(["<a>", "<a>b", "[.*]"])
    assert pattern.split("x<a>bc<a>[.*]") == ["x", "<a>b", "c", "<a>", "", "[.*]", ""]
    assert special_pattern([]).split("x<a>") == ["x<a>"]


def test_the_parts_of_a_text():
    tokens = AddedTokens({"<s>": 1, "<e>": 2}, {"<s><e>": 3, "é": 4}, frozenset(["é"]), compose)
    assert list(tokens.split("a<s><e>b")) == ["a", 3, "b"]
    assert list(tokens.split("a<e>b", frozenset(["<e>"]))) == ["a", 2, "b"]
    assert list(tokens.split("<e>e\u0301", frozenset(["<s>"]))) == ["<e>", 4, ""]
    assert not tokens.keep_text_whole
    assert AddedTokens({"<s>": 1}, {}, frozenset(), None).keep_text_whole


@given(some_text, st.sets(st.sampled_from(SPECIAL_TOKENS)))
def test_only_the_allowed_special_tokens_count(text, names):
    ids = tok.encode(text, allow_special=names)
    found = [number for number in ids if number in tok.specials.values()]
    assert {tok.decode([number]) for number in found} == {name for name in names if name in text}
    assert len(found) == sum(text.count(name) for name in names)
    assert tok.decode(ids) == text


@given(some_text)
def test_all_and_none_are_the_two_ends(text):
    assert tok.encode(text, allow_special=SPECIAL_TOKENS) == tok.encode(text, allow_special=True)
    assert tok.encode(text, allow_special=[]) == tok.encode(text, allow_special=False) == tok.encode(text)
    assert not set(tok.encode(text)) & set(tok.specials.values())


def test_a_name_that_is_no_special_token_is_refused():
    with pytest.raises(TokenizerError, match=r"names '<\|ende\|>', .* did you mean '<\|end\|>'"):
        tok.encode("a", allow_special=["<|ende|>"])
    with pytest.raises(TokenizerError, match="is one string: pass True, False or a list of names"):
        tok.encode("a", allow_special="<|end|>")


@given(some_text)
def test_added_tokens_are_split_off_every_text(text):
    with_added = changed(added={"   ": 330, "<tool>": 331}, size=332)
    ids = with_added.encode(text)
    assert ids.count(331) == text.count("<tool>")
    assert ids.count(330) == text.count("   ")
    assert with_added.decode(ids) == text
    assert [row.tolist() for row in with_added.encode_batch([text])] == [ids]


@given(some_text)
def test_composing_is_all_that_nfc_does(text):
    composing = changed(nfc=True)
    assert composing.encode(text) == tok.encode(unicodedata.normalize("NFC", text))
    assert composing.decode(composing.encode(text)) == unicodedata.normalize("NFC", text)


def test_normalized_tokens_are_found_in_what_is_left():
    first = changed(added={"ab": 330, "bc": 331}, size=332)
    last = changed(added={"ab": 330, "bc": 331}, size=332, normalized=frozenset(["ab"]))
    assert first.encode("abc") == [330, *tok.encode("c")]
    assert last.encode("abc") == [*tok.encode("a"), 331]
    assert last.encode("ab bc") == [330, *tok.encode(" "), 331]
    composing = changed(added={"n\u00e9e": 330}, size=331, nfc=True, normalized=frozenset(["n\u00e9e"]))
    assert composing.encode("ne\u0301e") == [330]
    first = changed(added={"n\u00e9e": 330}, size=331, nfc=True)
    assert first.encode("ne\u0301e") == tok.encode("n\u00e9e")
