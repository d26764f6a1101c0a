import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tokenizer import TokenizerError, vidya_v1

LINES = [
    "<|user|> How are you? <|assistant|> I am well, and you?",
    "<|user|> What is the time? <|assistant|> It is time of the day to say it.",
] * 3
tok = vidya_v1.train(LINES, num_merges=60)


def suitable_lines():
    """Conversations of exactly 185 different bytes: 95 of ASCII, 26 that lead a letter, 64 that follow."""
    draw = random.Random(0)
    letters = [*map(chr, range(0x20, 0x7F)), *map(chr, range(0xC0, 0x740))]
    words = ["".join(draw.choices(letters, k=draw.randrange(2, 8))) for _ in range(800)] + letters
    for _ in range(400):
        ask, answer = (" ".join(draw.choices(words, k=20)).replace("<", "(") for _ in range(2))
        yield f"<|user|> {ask} <|assistant|> {answer}"
    yield "<|user|> <" + "".join(letters)


def test_suitable_text_gives_the_documented_ids():
    big = vidya_v1.train(suitable_lines())
    assert len(big.vocabulary.merges) == 2000
    assert big.specials == {"<BOS>": 2185, "<|user|>": 2186, "<|assistant|>": 2187}
    first = [big.decode_bytes([number]) for number in range(185)]
    assert first == sorted(first)
    assert {len(token) for token in first} == {1}
    assert all(len(big.decode_bytes([number])) >= 2 for number in range(185, 2185))
    assert all(len(big.decode_bytes([number])) == 1 for number in range(2188, 2259))
    assert big.vocab_size == big.used == 2259  # 2,188 and the 71 bytes that the original drops


def test_merges_cross_spaces_but_never_a_marker():
    tokens = [tok.decode_bytes([number]) for number in range(tok.specials["<BOS>"])]
    assert any(b" " in token.strip() for token in tokens)
    assert not any(b"<|" in token for token in tokens)


@given(st.text())
def test_no_letter_is_lost(text):
    assert tok.decode(tok.encode(text)) == text
    assert tok.decode(tok.encode_document(text)) == f"<BOS>{text}<BOS>"


def test_unknown_bytes_have_the_last_ids():
    ids = tok.encode("日本")
    assert len(ids) == 6
    assert all(number > tok.specials["<|assistant|>"] for number in ids)


def test_a_line_stands_between_borders_and_a_border_inside_is_plain_text():
    bos, user, _ = tok.specials.values()
    row = tok.encode_document("<|user|> <BOS>", allow_special=["<|user|>"])
    assert row == [bos, user, *tok.encode(" <BOS>"), bos]
    assert tok.decode(row) == "<BOS><|user|> <BOS><BOS>"


def test_bad_training_options_are_named():
    with pytest.raises(TokenizerError, match="num_merges=-1"):
        vidya_v1.train(LINES, num_merges=-1)
    with pytest.raises(TokenizerError, match=r"pass text\.splitlines"):
        vidya_v1.train(LINES[0])
    with pytest.raises(TokenizerError, match="expected a str"):
        vidya_v1.train([5])
    with pytest.raises(TokenizerError, match="lone surrogate"):
        vidya_v1.train(["\udc00"])
    with pytest.raises(TokenizerError, match=r"pass \[text\]"):
        vidya_v1.train_to_size(LINES[0], 300)
    with pytest.raises(TokenizerError, match="expected a str"):
        vidya_v1.train_to_size([5], 300)


def test_it_is_kept_in_tokenizer_json(tmp_path):
    tok.save(tmp_path)
    loaded = tokenizer.load(tmp_path)
    assert loaded.vocabulary == tok.vocabulary
    assert loaded.end_of_text_id == loaded.specials["<BOS>"]
