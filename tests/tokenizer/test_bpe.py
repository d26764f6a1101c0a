from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tokenizer import SPECIAL_TOKENS, TokenizerError
from tokenizer.text.split import SPLITS

CORPUS = [
    "The quick brown fox jumps over the lazy dog.",
    "Das Öl fließt; 日本語 im Text, naïve café!",
    "",
] * 3
toks = {name: tokenizer.train(CORPUS, vocab_size=340, split=name) for name in SPLITS}
tok = toks["gpt2"]
some_text = st.text() | st.lists(st.sampled_from([*SPECIAL_TOKENS, "the ", "fox", "日本"])).map("".join)


@pytest.mark.parametrize("name", SPLITS)
@given(text=some_text)
def test_decode_undoes_encode(name, text):
    assert toks[name].decode(toks[name].encode(text)) == text
    assert toks[name].decode(toks[name].encode(text, allow_special=True)) == text


@given(st.binary())
def test_any_bytes_have_ids(data):
    assert tok.decode_bytes([len(SPECIAL_TOKENS) + byte for byte in data]) == data


@given(st.lists(some_text))
def test_a_batch_is_each_text_by_itself(texts):
    batch = tok.encode_batch(texts)
    assert [ids.tolist() for ids in batch] == [tok.encode(text) for text in texts]
    assert all(ids.dtype == np.int32 and ids.ndim == 1 for ids in batch)


@given(some_text)
def test_ids_are_python_ints_in_range(text):
    ids = tok.encode(text)
    assert all(type(number) is int and len(SPECIAL_TOKENS) <= number < tok.vocab_size for number in ids)


def test_a_special_token_in_a_text_is_plain_text_unless_allowed():
    plain, special = tok.encode("a<|end|>b"), tok.encode("a<|end|>b", allow_special=True)
    assert not set(plain) & set(tok.specials.values())
    assert special == [*tok.encode("a"), tok.specials["<|end|>"], *tok.encode("b")]
    assert tok.decode(plain) == tok.decode(special) == "a<|end|>b"


@pytest.mark.parametrize("changes", [{}, {"nfc": True}, {"whole_words": True}, {"added": {"<é>": 340}, "size": 341}])
def test_a_batch_refuses_what_is_no_text_and_no_number_of_threads(changes):
    some = tokenizer.Tokenizer(replace(tok.vocabulary, **changes))
    for texts, message in ((["a", 5], "text 1 is a int, expected a str"), ("abc", r"pass \[text\]")):
        with pytest.raises(TokenizerError, match=message):
            some.encode_batch(texts)
    with pytest.raises(TokenizerError, match="threads=0: expected 1 or more"):
        some.encode_batch(["a"], threads=0)
    for allowed in (False, True):
        with pytest.raises(TokenizerError, match="the text is a int, expected a str"):
            some.encode(5, allow_special=allowed)
    assert [ids.tolist() for ids in some.encode_batch(["to be"], threads=2)] == [some.encode("to be")]


def test_ids_are_special_tokens_then_bytes_then_merges():
    assert tok.specials == {name: number for number, name in enumerate(SPECIAL_TOKENS)}
    assert tok.end_of_text_id == 0
    assert [tok.decode_bytes([5 + byte]) for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    assert all(len(tok.decode_bytes([number])) >= 2 for number in range(261, tok.used))


def test_unused_ids_are_valid_and_empty():
    small = tokenizer.train(["aa aa"], vocab_size=1000)
    assert (small.vocab_size, small.used) == (1000, 262)  # `aa` occurs twice, ` aa` once
    assert small.decode([999, *small.encode("a"), 262]) == "a"


@pytest.mark.parametrize("number", [-1, 340, 10**12])
def test_an_id_out_of_range_is_named(number):
    with pytest.raises(TokenizerError, match=f"token id {number} is out of range: ids go from 0 to 339"):
        tok.decode([5, number])


def test_decode_takes_arrays_and_mends_broken_letters():
    assert tok.decode(np.array(tok.encode("日本"), np.int32)) == "日本"
    assert tok.decode([5 + 0xE6, 5 + ord("a")]) == "\ufffda"


def test_a_lone_surrogate_is_refused_everywhere():
    for use in (tok.encode, lambda text: tok.encode_batch([text]), lambda text: tokenizer.train([text])):
        with pytest.raises(TokenizerError, match=r"U\+DC00"):
            use("a \udc00")


@given(st.lists(some_text, max_size=6), st.randoms())
def test_the_order_of_the_texts_does_not_matter(texts, shuffler):
    shuffled = texts.copy()
    shuffler.shuffle(shuffled)
    assert tokenizer.train(texts, 300).fingerprint() == tokenizer.train(shuffled, 300).fingerprint()


def test_no_learned_token_is_spelled_like_a_special_one():
    greedy = tokenizer.train(["x<|end|>y"] * 50, vocab_size=400, split="none")
    assert b"<|end|>" not in greedy.vocabulary.ids
    assert not set(greedy.encode("<|end|>")) & set(greedy.specials.values())


def test_vocab_size_must_hold_the_bytes():
    assert tokenizer.train(CORPUS, vocab_size=261).used == 261
    with pytest.raises(TokenizerError, match="vocab_size=260 is too small: 256 bytes and 5 special tokens need 261"):
        tokenizer.train(CORPUS, vocab_size=260)


@pytest.mark.parametrize("train", tokenizer.KINDS.values())
def test_vocab_size_is_a_whole_number(train):
    size = train(CORPUS, np.int64(300)).vocab_size
    assert (size, type(size)) == (300, int)
    for wrong in (300.0, "300", None):
        with pytest.raises(TokenizerError, match=f"^vocab_size={wrong!r}: expected a whole number.$"):
            train(CORPUS, wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"special_tokens": ["<a>", "<a>"]}, "named twice"),
        ({"special_tokens": "<a>"}, "special_tokens is one string, '<a>'; pass a list of them"),
        ({"special_tokens": [""]}, "special token '' is empty"),
        ({"special_tokens": ["a"]}, "special token 'a' is .* spelled like an ordinary token"),
        ({"min_frequency": 0}, "min_frequency=0: expected 1 or more"),
        ({"split": "gpt3"}, "unknown split 'gpt3'"),
        ({"vocab_size": 10**9}, "1,000,000,000 ids, and at most 16,777,216"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(TokenizerError, match=message):
        tokenizer.train(CORPUS, **options)


def test_a_tokenizer_without_end_of_text_says_so():
    with pytest.raises(TokenizerError, match=r"no token '<\|endoftext\|>'.*special tokens are <x>"):
        _ = tokenizer.train([], special_tokens=["<x>"]).end_of_text_id


def test_the_fingerprint_tells_tokenizers_apart():
    others = [
        tokenizer.train(CORPUS, vocab_size=340),
        tokenizer.train(CORPUS, vocab_size=341),
        tokenizer.train(CORPUS, vocab_size=340, split="digits"),
        tokenizer.train(CORPUS, vocab_size=340, special_tokens=SPECIAL_TOKENS[::-1]),
        tokenizer.train(CORPUS[:1] * 2, vocab_size=340),
    ]
    assert others[0].fingerprint() == tok.fingerprint()
    assert len({other.fingerprint() for other in others}) == len(others)


def test_the_ids_in_use_are_those_with_bytes():
    small = tokenizer.train(["aaaa aaaa"], vocab_size=400)
    assert small.ids == list(range(small.used))
    assert all(small.decode_bytes([number]) for number in small.ids)


def test_a_document_stands_between_its_tokens():
    vocabulary = replace(tok.vocabulary, before=("<|user|>",), after=("<|end|>", "<|endoftext|>"))
    around = tokenizer.Tokenizer(vocabulary)
    assert around.encode_document("to be") == [1, *tok.encode("to be"), 4, 0]
    assert around.encode("to be") == tok.encode("to be") == tok.encode_document("to be")


@given(st.binary() | some_text.map(str.encode) | st.lists(st.binary(max_size=3) | st.just(b"the ")).map(b"".join))
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


def test_training_composes_the_text_it_learns_from():
    composed = tokenizer.train(["e\u0301e\u0301"] * 3, vocab_size=262, nfc=True)
    assert "éé".encode()[:2] in composed.vocabulary.ids
    assert composed.vocabulary.nfc
    assert not tokenizer.train(["é"], vocab_size=262).vocabulary.nfc


def test_an_unknown_option_of_training_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'thread'"):
        tokenizer.train(CORPUS, thread=1)


@pytest.mark.parametrize("nfc", [False, True])
def test_one_text_in_place_of_many_is_refused(nfc):
    with pytest.raises(TokenizerError, match=r"texts is one string, expected a list of them: pass \[text\]"):
        tokenizer.train("text", vocab_size=300, nfc=nfc)
