from hypothesis import given
from hypothesis import strategies as st

import tokenizer

tok = tokenizer.train(["naïve café 日本語 👩‍👩‍👧 naïve café 日本語 👩‍👩‍👧"], vocab_size=400)


def streamed(ids):
    decoder = tok.stream_decoder()
    return "".join([decoder.push(number) for number in ids]) + decoder.flush()


@given(st.lists(st.integers(0, tok.vocab_size - 1)))
def test_a_stream_of_any_ids_is_decode(ids):
    assert streamed(ids) == tok.decode(ids)


@given(st.text())
def test_a_stream_of_any_text_is_the_text(text):
    assert streamed(tok.encode(text)) == text


def test_half_a_character_is_kept():
    decoder = tok.stream_decoder()
    first, second, third = (tok.encode("a")[0] - 97 + byte for byte in "€".encode())
    assert [decoder.push(number) for number in (first, second, third)] == ["", "", "€"]
    assert decoder.push(first) == ""
    assert decoder.flush() == "\ufffd"
    assert decoder.push(tok.encode("a")[0]) == "a"
    assert decoder.flush() == ""
