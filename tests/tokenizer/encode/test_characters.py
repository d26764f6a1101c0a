from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tests.tokenizer import byte_fallback
from tokenizer import TokenizerError
from tokenizer.text.spelling import MARK, mark_spaces

vocabulary = byte_fallback.vocabulary()
tok = tokenizer.Tokenizer(vocabulary)
IDS = {token.decode(): number for token, number in vocabulary.ids.items()}


def plainly(text):
    """Return the ids of a text by scanning all pairs before each merge."""
    tokens = []
    for character in mark_spaces(text):
        known = character.encode() in vocabulary.ids
        tokens += [character.encode()] if known else [3 + byte for byte in character.encode()]
    ranks = {pair: rank for rank, pair in enumerate(vocabulary.merges)}
    while found := [(ranks[pair], i) for i, pair in enumerate(pairwise(tokens)) if pair in ranks]:
        _, i = min(found)
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
    return [each if isinstance(each, int) else vocabulary.ids[each] for each in tokens]


letters = st.sampled_from([" ", "  ", "to", "be", "the", "é", "z", "日", "\n", "🙂", "<s>"])
texts = st.lists(letters, max_size=12).map("".join)


@given(texts)
def test_the_ids_are_those_of_plain_merging_and_decode_to_the_text(text):
    ids = tok.encode(text)
    assert ids == plainly(text)
    assert tok.decode(ids) == text
    assert tok.decode_bytes(ids) == (b" " + text.encode() if text else b"")
    assert [each.tolist() for each in tok.encode_batch([text, ""])] == [ids, []]
    assert tok.encode_bytes(text.encode()) == ids


def test_a_word_has_the_same_token_at_the_beginning_and_in_the_middle():
    the = IDS[f"{MARK}the"]
    assert tok.encode("the the") == [the, the]
    assert tok.encode("") == []
    assert tok.encode_document("the") == [1, the]


def test_a_special_token_begins_a_new_text():
    the = IDS[f"{MARK}the"]
    assert tok.encode("<s>the</s>the", allow_special=True) == [1, the, 2, the]
    assert 1 not in tok.encode("<s>the")


def test_special_tokens_that_are_normalised_are_found_with_the_space_before_the_text():
    marked = tokenizer.Tokenizer(replace(vocabulary, normalized=frozenset(["<s>"])))
    assert marked.encode("<s>the", allow_special=True) == [1, IDS["the"]]
    assert marked.encode("the<s>", allow_special=True) == tok.encode("the<s>")


def test_bytes_that_are_not_utf8_become_one_replacement_each():
    first, *rest = (3 + byte for byte in "日".encode())
    assert tok.decode([first, *rest]) == "日"
    assert tok.decode([first, rest[0]]) == "\ufffd\ufffd"
    assert tok.decode([first, *rest, 3 + 0xFF]) == "\ufffd" * 4
    assert tok.decode([first, IDS["to"], 3 + 65]) == "\ufffdtoA"
    with pytest.raises(TokenizerError, match=r"b'\\xe6' in a row are not UTF-8"):
        tok.decode([first], errors="strict")


def test_tokens_that_arrive_one_by_one_keep_their_spaces():
    decoder = tok.stream_decoder()
    ids = tok.encode("the 日 the")
    assert "".join(map(decoder.push, ids)) + decoder.flush() == " the 日 the"
    assert tok.decode(ids) == "the 日 the"


def test_what_cannot_be_encoded_or_decoded_is_refused():
    with pytest.raises(TokenizerError, match="lone surrogate"):
        tok.encode("\ud800")
    with pytest.raises(TokenizerError, match="this tokenizer begins with characters and takes text only"):
        tok.encode_bytes(b"\xff")
    for number in (-1, tok.vocab_size):
        with pytest.raises(TokenizerError, match="out of range"):
            tok.decode([number])
    with pytest.raises(TokenizerError, match="byte_ids has 255 ids, expected one for each of the 256 bytes"):
        byte_fallback.vocabulary(byte_ids=tuple(range(255)))


def test_the_hash_knows_the_ids_of_bytes():
    swapped = (4, 3, *range(5, 259))
    assert tok.fingerprint() != tokenizer.Tokenizer(replace(vocabulary, byte_ids=swapped)).fingerprint()
