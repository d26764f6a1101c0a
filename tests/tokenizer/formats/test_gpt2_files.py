import json
from dataclasses import replace

import pytest

import tokenizer
from tokenizer import TokenizerError
from tokenizer.text.split import SPLITS
from tokenizer.vocabulary import Vocabulary

CORPUS = ["to be or not to be, that is the question", "日本語 日本語\n\n12 + 12 aaaaaaaaaaaa"] * 3
tok = tokenizer.train(CORPUS, vocab_size=330)


@pytest.fixture
def folder(tmp_path):
    tok.save(tmp_path, format="gpt2")
    return tmp_path


def test_gpt2s_files_are_read_as_they_were_written(folder):
    assert sorted(file.name for file in folder.iterdir()) == ["merges.txt", "tokenizer_config.json", "vocab.json"]
    for path in (folder, folder / "vocab.json", folder / "merges.txt"):
        loaded = tokenizer.load(path)
        assert loaded.vocabulary == tok.vocabulary
        assert loaded.fingerprint() == tok.fingerprint()


def test_gpt2s_files_look_as_gpt2s(folder):
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    assert list(vocab.values()) == list(range(tok.vocab_size))
    assert vocab["<|endoftext|>"] == 0
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    assert lines[0] == "#version: 0.2"
    assert lines[-1] == ""
    assert len(lines) == 2 + len(tok.vocabulary.merges)
    assert all(len(line.split(" ")) == 2 for line in lines[1:-1])


def test_gpt2s_files_may_come_from_windows_and_without_the_version(folder):
    merges = (folder / "merges.txt").read_text(encoding="utf-8").split("\n", 1)[1]
    (folder / "merges.txt").write_bytes(merges.replace("\n", "\r\n").encode())
    assert tokenizer.load(folder).vocabulary == tok.vocabulary


def test_unused_ids_survive_gpt2s_files(tmp_path):
    small = tokenizer.train(["aa aa"], vocab_size=300, special_tokens=["<|endoftext|>", "<a b>"])
    small.save(tmp_path, format="gpt2")
    assert tokenizer.load(tmp_path).vocabulary == small.vocabulary


def test_gpt2s_files_can_only_hold_tokens_that_merges_make(tmp_path):
    vocabulary = replace(tok.vocabulary, merges=tok.vocabulary.merges[:-1])  # its token would be read as a special one
    with pytest.raises(TokenizerError, match=r"cannot store tokens that no merge makes: save as tokenizer\.json"):
        tokenizer.Tokenizer(vocabulary).save(tmp_path, format="gpt2")
    assert not list(tmp_path.iterdir())


def test_two_merges_may_make_one_token(tmp_path):
    merges = (b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")
    made = dict.fromkeys(left + right for left, right in merges)
    ids = {bytes([byte]): byte for byte in range(256)} | {token: 256 + number for number, token in enumerate(made)}
    vocabulary = Vocabulary("gpt2", ids, merges, {"<|endoftext|>": 259}, 260)
    tokenizer.Tokenizer(vocabulary).save(tmp_path, format="gpt2")
    assert tokenizer.load(tmp_path).vocabulary == vocabulary


def test_merges_that_are_not_text_are_damaged(folder):
    (folder / "merges.txt").write_bytes(b"t \xff\n")
    with pytest.raises(tokenizer.TokenizerError, match=r"merges.txt: byte 0xff .*; the file is damaged\.$"):
        tokenizer.load(folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("merges.txt", "o Ġ\n", "o Ġ x\n", r"merges.txt, line \d+ is 'o Ġ x', expected two tokens"),
        ("merges.txt", "o Ġ\n", "o\n", r"merges.txt, line \d+ is 'o', expected two tokens"),
        ("merges.txt", "o Ġ\n", "o 日\n", r"merges.txt, line \d+ is 'o 日'"),
        ("merges.txt", "t o\n", "t é\n", r"merges.txt: the merge of 't' and 'é' needs the token 'té'"),
        ("vocab.json", '"A": 70', '"A": "70"', "vocab.json: the id of 'A' is '70', expected a whole number"),
        ("vocab.json", '"A": 70', '"A": 71', "vocab.json and .*merges.txt: id 71 is given to 2 token"),
        ("vocab.json", '"A": 70', '"A', "vocab.json is not JSON text, or is cut short"),
    ],
)
def test_a_bad_line_in_gpt2s_files_is_named(folder, name, old, new, message):
    content = (folder / name).read_text(encoding="utf-8")
    if old not in content:
        old = content.split("\n")[1] + "\n"
    (folder / name).write_text(content.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(TokenizerError, match=message):
        tokenizer.load(folder)


def test_undecodable_merges_are_named(folder):
    (folder / "merges.txt").write_bytes(b"#version: 0.2\n\xff a\n")
    with pytest.raises(TokenizerError, match=r"merges.txt: byte 0xff at position 14, .* is not UTF-8"):
        tokenizer.load(folder)


@pytest.mark.parametrize("split", sorted(set(SPLITS) - {"gpt2"}))
def test_gpt2s_files_can_only_hold_its_split(tmp_path, split):
    other = tokenizer.train(CORPUS, vocab_size=300, split=split)
    with pytest.raises(TokenizerError, match=f"cannot store split='{split}': save as tokenizer.json"):
        other.save(tmp_path, format="gpt2")
    assert not list(tmp_path.iterdir())
