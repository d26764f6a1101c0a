import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tokenizer import TokenizerError
from tokenizer.formats.rank_files import PUBLISHED

CORPUS = ["to be or not to be, that is the question", "日本語 日本語\n\n12 + 12 aaaaaaaaaaaa"] * 3
tok = tokenizer.train(CORPUS, vocab_size=330)


@pytest.fixture
def rank_file(tmp_path):
    tok.save(tmp_path / "own.tiktoken")
    return tmp_path / "own.tiktoken"


def test_a_rank_file_is_read_as_it_was_written(rank_file):
    loaded = tokenizer.load(rank_file, split="gpt2", special_tokens=tok.specials)
    assert loaded.vocabulary.merges == tok.vocabulary.merges
    assert loaded.vocabulary.ids == tok.vocabulary.ids
    assert loaded.encode(CORPUS[0]) == tok.encode(CORPUS[0])
    first = rank_file.read_bytes().split(b"\n")[0]
    assert first == b"AA== 5"


@given(words=st.lists(st.text("abc", max_size=12), max_size=8), text=st.text("abc", max_size=30))
def test_ranks_hold_all_that_merges_do(words, text, tmp_path_factory):
    trained = tokenizer.train(words, vocab_size=300, split="none", min_frequency=1)
    file = tmp_path_factory.mktemp("ranks") / "own.tiktoken"
    trained.save(file)
    loaded = tokenizer.load(file, split="none", special_tokens=trained.specials)
    assert loaded.vocabulary.merges == trained.vocabulary.merges
    assert loaded.encode(text) == trained.encode(text)


def test_a_token_that_merges_never_reach_is_still_a_word(tmp_path):
    # `ab` and `bc` come before, so `a`, `bcd` never meet; only the word `abcd` as a whole is this token.
    lines = [b"%b %d" % (encoded(bytes([byte])), byte) for byte in range(256)]
    lines += [b"%b %d" % (encoded(token), 256 + i) for i, token in enumerate([b"bc", b"ab", b"abcd"])]
    (tmp_path / "x.tiktoken").write_bytes(b"\n".join(lines))
    loaded = tokenizer.load(tmp_path / "x.tiktoken", split="gpt2")
    assert loaded.vocabulary.whole_words
    assert loaded.encode("abcd") == [258]
    assert loaded.encode("xabcd") == [120, 97, 256, 100]
    loaded.save(tmp_path / "y.tiktoken")
    assert (tmp_path / "y.tiktoken").read_bytes() == (tmp_path / "x.tiktoken").read_bytes() + b"\n"
    loaded.save(tmp_path / "tokenizer.json")
    again = tokenizer.load(tmp_path / "tokenizer.json")
    assert again.vocabulary == loaded.vocabulary
    assert again.encode("abcd xabcd") == loaded.encode("abcd xabcd")


def encoded(token):
    return base64.b64encode(token)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"AA==", r"line 1 is b'AA==', expected base64, a space, a rank"),
        (b"A 5", r"line 1 is b'A 5'"),
        (b"AA== five", r"line 1 is b'AA== five'"),
        (b"AA== 6", "own.tiktoken: id 6 is given to 2 token"),
        (b"AA== -1", r"id -1 is out of range: expected 0 to \d+\.$"),
        (b"", "byte 0x00 has no token"),
        (b"AA== 5\nAA== 900", "line 2 .* is there already"),
    ],
)
def test_a_bad_line_in_a_rank_file_is_named(rank_file, line, message):
    rank_file.write_bytes(rank_file.read_bytes().replace(b"AA== 5", line, 1))
    with pytest.raises(TokenizerError, match=message):
        tokenizer.load(rank_file, split="gpt2")


def test_a_rank_file_must_be_told_its_split(rank_file):
    with pytest.raises(TokenizerError, match=r"own.tiktoken does not contain its split.*cl100k_base.*split='gpt4'"):
        tokenizer.load(rank_file)
    with pytest.raises(TokenizerError, match="unknown split 'gpt5'"):
        tokenizer.load(rank_file, split="gpt5")


def test_openais_rank_files_are_known_by_name(rank_file):
    for name, (split, specials) in PUBLISHED.items():
        path = rank_file.rename(rank_file.with_name(f"{name}.tiktoken"))
        loaded = tokenizer.load(path)
        assert (loaded.vocabulary.split, loaded.specials) == (split, specials)
        assert loaded.end_of_text_id == specials["<|endoftext|>"]
        path.rename(rank_file)


def test_a_rank_file_cannot_hold_every_tokenizer(tmp_path):
    vocabulary = tok.vocabulary
    first, second = (left + right for left, right in vocabulary.merges[:2])
    swapped = vocabulary.ids | {first: vocabulary.ids[second], second: vocabulary.ids[first]}
    for changed, message in [
        ({"ids": swapped}, "do not rise in the order of its merges"),
        ({"merges": vocabulary.merges[:-1]}, "do not rise in the order of its merges"),
        ({"nfc": True}, "cannot store NFC"),
        ({"added": {"   ": 900}, "size": 901}, "cannot store added tokens"),
        ({"before": ("<|user|>",)}, "cannot store tokens around every document"),
        ({"after": ("<|user|>",)}, "cannot store tokens around every document"),
    ]:
        other = tokenizer.Tokenizer(replace(vocabulary, **changed))
        with pytest.raises(TokenizerError, match=message):
            other.save(tmp_path / "x.tiktoken")
    assert not list(tmp_path.iterdir())
