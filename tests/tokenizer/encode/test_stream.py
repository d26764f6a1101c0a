import pytest
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


encoders = {
    split: tokenizer.train(["it's 12 times  naïve,\n\n日本語。 " * 3], vocab_size=300, split=split)
    for split in ("gpt2", "digits", "gpt4", "qwen2", "none", r"\w+")
}
parts = st.lists(st.text(max_size=8) | st.text("a 1\n!'slLſ日,\u00a0", max_size=8))


@pytest.mark.parametrize("split", encoders)
@given(parts=parts)
def test_encoding_parts_is_encoding_the_text(split, parts):
    encoder = encoders[split].stream_encoder()
    for _ in range(2):  # after a flush, it starts anew
        ids = [number for part in parts for number in encoder.push(part)] + encoder.flush()
        assert ids == encoders[split].encode("".join(parts))


def test_a_word_that_may_continue_is_kept():
    encoder = encoders["gpt2"].stream_encoder()
    words = ["it", "'s", " naï"]
    assert encoder.push("it's naï") == [i for word in words[:2] for i in encoders["gpt2"].encode(word)]
    assert encoder.push("ve") == []
    assert encoder.push(",") == encoders["gpt2"].encode(" naïve")
    assert encoder.flush() == encoders["gpt2"].encode(",")
    whole = encoders["none"].stream_encoder()
    assert [whole.push("to be, "), whole.push("or")] == [[], []]
    assert whole.flush() == encoders["none"].encode("to be, or")


PIECES = ("<|end|>", "<|endoftext|>", "<|", "|>", "end", "oftext", " ", "a", "é", "\n")


@given(pieces=st.lists(st.sampled_from(PIECES)), allowed=st.sets(st.sampled_from(["<|end|>", "<|endoftext|>"])))
def test_special_tokens_may_be_allowed_in_a_stream(pieces, allowed):
    encoder = encoders["gpt2"].stream_encoder(allow_special=allowed)
    ids = [number for piece in pieces for number in encoder.push(piece)] + encoder.flush()
    assert ids == encoders["gpt2"].encode("".join(pieces), allow_special=allowed)


@given(st.text(["<", "|", "e", "n", "d", ">", " ", "x"]))
def test_a_special_token_may_arrive_one_character_at_a_time(text):
    encoder = encoders["gpt2"].stream_encoder(allow_special=True)
    ids = [number for character in text for number in encoder.push(character)] + encoder.flush()
    assert ids == encoders["gpt2"].encode(text, allow_special=True)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_special_token_whose_last_character_follows_a_letter_is_found_in_any_parts(size):
    tok = tokenizer.train(["it's it's"], vocab_size=260, special_tokens=["<s>"])
    text, encoder = "it's<s>it's<s> it's", tok.stream_encoder(allow_special=True)
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    ids = [number for part in parts for number in encoder.push(part)] + encoder.flush()
    assert ids == tok.encode(text, allow_special=True)


def test_a_stream_is_encoded_before_its_end_and_names_are_checked():
    encoder = encoders["gpt2"].stream_encoder(allow_special=True)
    assert encoder.push("it's<|end|> 12 times ") == encoders["gpt2"].encode("it's<|end|> 12 times", allow_special=True)
    with pytest.raises(tokenizer.TokenizerError, match="allow_special names 'x'"):
        encoders["gpt2"].stream_encoder(allow_special=["x"])
