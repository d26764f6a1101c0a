from dataclasses import replace

import numpy as np
import pytest

import tokenizer
from tokenizer import TokenizerError
from tokenizer import vocabulary as vocabularies

vocabulary = tokenizer.train(["to be or not to be"] * 3, vocab_size=330).vocabulary
LAST_ID = max(vocabulary.token_bytes)


def test_every_id_has_the_bytes_of_its_token():
    more = replace(vocabulary, added={"<é>": 331}, size=340)
    assert more.token_bytes[331] == "<é>".encode()
    assert more.token_bytes[0] == b"<|endoftext|>"
    assert {more.token_bytes[number] for number in more.ids.values()} == set(more.ids)
    assert sorted(more.token_bytes) == sorted([*more.ids.values(), *range(5), 331])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"added": {"<|end|>": 330}, "size": 331}, r"'<\|end\|>' is both a special token and an added one"),
        ({"added": {"": 330}, "size": 331}, "special token '' is empty"),
        ({"added": {"to": 330}, "size": 331}, "'to' is .* spelled like an ordinary token"),
        ({"added": {"<x>": 4}}, r"id 4 is given to 2 tokens, expected one\.$"),
        ({"ids": {}}, "byte 0x00 has no token"),
        ({"merges": ((b"x", b"y"),)}, "the merge of 'x' and 'y' needs the token 'xy'"),
        ({"merges": ((b"t", b"o"), (b"t", b"o"))}, "the merge of t and o is listed twice"),
        ({"size": 2**24 + 1}, "16,777,217 ids, and at most 16,777,216"),
        ({"size": 100}, r"id \d+ is out of range: expected 0 to 99\.$"),
        ({"size": LAST_ID}, rf"id {LAST_ID} is out of range: expected 0 to {LAST_ID - 1}\.$"),
        ({"specials": {"\udc00": 0}}, "lone surrogate"),
        ({"before": ("<s>",)}, "'<s>' is placed around every document, but it is not a special token"),
    ],
)
def test_bad_vocabularies_are_named(fields, message):
    with pytest.raises(TokenizerError, match=message):
        replace(vocabulary, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"split": "gpt4"},
        {"size": 331},
        {"end_of_text": "<|end|>"},
        {"specials": {"<|endoftext|>": 0}},
        {"merges": vocabulary.merges[:-1]},
        {"added": {"<x>": 330}, "size": 331},
        {"normalized": frozenset(["<|end|>"])},
        {"nfc": True},
        {"whole_words": True},
        {"before": ("<|user|>",)},
        {"after": ("<|user|>",)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_the_fingerprint_changes_with_every_field(fields):
    assert replace(vocabulary).fingerprint() == vocabulary.fingerprint()
    assert replace(vocabulary, **fields).fingerprint() != vocabulary.fingerprint()


ASCII = np.array([chr(number).isalpha() for number in range(128)], np.uint8)


def test_the_fingerprint_is_the_same_in_every_version_of_this_package(monkeypatch):
    monkeypatch.setattr(vocabularies, "character_classes", lambda: ASCII)
    monkeypatch.setattr(vocabularies, "unidata_version", "15.0.0")
    plain = tokenizer.train(["to be or not to be"] * 3, vocab_size=270)
    composing = replace(plain.vocabulary, nfc=True)
    assert plain.fingerprint() == "d3eab23f25d1b57622b7c021475859b807afea2d3c2523d283966d494367de10"
    assert composing.fingerprint() == "2f8731e6a8bfbe080393927c9b50749f77a42f90fa97cef8b4d97937a2da54f0"


def test_the_fingerprint_changes_with_the_version_of_unicode(monkeypatch):
    """A character that became a letter gives other words, so texts that were encoded before must not be reused."""
    before = vocabulary.fingerprint(), replace(vocabulary, nfc=True).fingerprint()
    with monkeypatch.context() as patch:
        patch.setattr(vocabularies, "unidata_version", "3.2.0")
        assert vocabulary.fingerprint() == before[0]
        assert replace(vocabulary, nfc=True).fingerprint() != before[1]
    monkeypatch.setattr(vocabularies, "character_classes", lambda: ASCII)
    assert vocabulary.fingerprint() != before[0]


def test_merges_become_a_tokenizer_by_the_public_names() -> None:
    trained = tokenizer.train(["to be or not to be"] * 9, vocab_size=262)
    again = tokenizer.Tokenizer(
        tokenizer.Vocabulary(
            split="gpt2",
            ids=dict(trained.vocabulary.ids),
            merges=trained.vocabulary.merges,
            specials=trained.specials,
            size=trained.vocab_size,
        )
    )
    assert again.encode("to be") == trained.encode("to be")
