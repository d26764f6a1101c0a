import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tokenizer import SPECIAL_TOKENS, TokenizerError
from tokenizer.vocabulary import Vocabulary

CORPUS = ["to be or not to be, é or e\u0301", "<tool> is a word here"] * 3
tok = tokenizer.train(CORPUS, vocab_size=330)
pieces = st.lists(st.text(max_size=3) | st.sampled_from([*SPECIAL_TOKENS, "<tool>", "   ", "e\u0301", "to be"]))
some_text = pieces.map("".join)


def changed(**fields):
    old = {name: getattr(tok.vocabulary, name) for name in Vocabulary.__dataclass_fields__}
    return tokenizer.Tokenizer(Vocabulary(**(old | fields)))


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
def test_added_tokens_are_cut_out_of_every_text(text):
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


def test_late_tokens_are_looked_for_in_what_is_left():
    early = changed(added={"ab": 330, "bc": 331}, size=332)
    late = changed(added={"ab": 330, "bc": 331}, size=332, late=frozenset(["ab"]))
    assert early.encode("abc") == [330, *tok.encode("c")]
    assert late.encode("abc") == [*tok.encode("a"), 331]
    assert late.encode("ab bc") == [330, *tok.encode(" "), 331]
    composing = changed(added={"n\u00e9e": 330}, size=331, nfc=True, late=frozenset(["n\u00e9e"]))
    assert composing.encode("ne\u0301e") == [330]
    early = changed(added={"n\u00e9e": 330}, size=331, nfc=True)
    assert early.encode("ne\u0301e") == tok.encode("n\u00e9e")


def test_a_document_stands_between_its_tokens():
    around = changed(before=("<|user|>",), after=("<|end|>", "<|endoftext|>"))
    assert around.encode_document("to be") == [1, *tok.encode("to be"), 4, 0]
    assert around.encode("to be") == tok.encode("to be") == tok.encode_document("to be")


@given(st.binary() | some_text.map(str.encode) | st.lists(st.binary(max_size=3) | st.just(b"to be")).map(b"".join))
def test_bytes_come_back_exactly(data):
    ids = tok.encode_bytes(data)
    assert tok.decode_bytes(ids) == data
    assert not set(ids) & set(tok.specials.values())


@given(some_text)
def test_the_bytes_of_a_text_have_its_ids(text):
    assert tok.encode_bytes(text.encode()) == tok.encode(text)


def test_decoding_bytes_that_are_no_text_is_a_choice():
    ids = tok.encode_bytes(b"caf\xe9!")
    assert tok.decode(ids) == "caf\ufffd!"
    assert tok.decode(tok.encode("é"), errors="strict") == "é"
    with pytest.raises(TokenizerError, match=r"byte 0xe9 at position 3, .*decode_bytes, or choose errors='replace'"):
        tok.decode(ids, errors="strict")
    with pytest.raises(TokenizerError, match="errors='ignore': expected 'replace' or 'strict'"):
        tok.decode(ids, errors="ignore")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"added": {"<|end|>": 330}, "size": 331}, r"'<\|end\|>' is both a special token and an added one"),
        ({"added": {"": 330}, "size": 331}, "special token '' is empty"),
        ({"added": {"to": 330}, "size": 331}, "'to' is .* spelled like an ordinary token"),
        ({"added": {"<x>": 4}}, "id 4 is given to 2 token"),
        ({"before": ("<s>",)}, "'<s>' shall stand around every document, and is no special token"),
    ],
)
def test_bad_vocabularies_are_named(fields, message):
    with pytest.raises(TokenizerError, match=message):
        changed(**fields)


def test_training_composes_the_text_it_learns_from():
    composed = tokenizer.train(["e\u0301e\u0301"] * 3, vocab_size=262, nfc=True)
    assert "éé".encode()[:2] in composed.vocabulary.ids
    assert composed.vocabulary.nfc
    assert not tokenizer.train(["é"], vocab_size=262).vocabulary.nfc
