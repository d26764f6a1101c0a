import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import TokenizerError
from tokenizer.text.unicode import composed, decode_utf8, encode_utf8


@given(st.text())
def test_bytes_and_back(text):
    assert encode_utf8(text) == text.encode()
    assert decode_utf8(encode_utf8(text), way_out="") == text


def test_a_lone_surrogate_is_named_with_its_place():
    with pytest.raises(TokenizerError, match=r"U\+D83D at character 2, in 'ab\\ud83dcd'.*errors='replace'"):
        encode_utf8("ab\ud83dcd")


def test_broken_utf8_is_named_or_replaced():
    assert decode_utf8(b"caf\xe9!", "replace", way_out="") == "caf\ufffd!"
    said = r"byte 0xe9 at position 3, in b'caf\\xe9!', is not UTF-8 \(invalid continuation byte\); leave it out\.$"
    with pytest.raises(TokenizerError, match=said):
        decode_utf8(b"caf\xe9!", way_out="leave it out")
    with pytest.raises(TokenizerError, match="at position 103, in"):
        decode_utf8(b"caf\xe9!", way_out="leave it out", first=100)


@given(st.lists(st.text("ae\u0301\u0308é")))
def test_composed_texts_are_in_normal_form_c(texts):
    assert list(composed(texts)) == [unicodedata.normalize("NFC", text) for text in texts]


def test_what_is_not_a_text_is_left_for_others_to_refuse():
    assert list(composed(["e\u0301", 5, None])) == ["é", 5, None]
