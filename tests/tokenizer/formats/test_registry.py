import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tokenizer import TokenizerError
from tokenizer.formats.pre_tokenizer import check_pattern
from tokenizer.formats.rank_files import PUBLISHED
from tokenizer.text.split import SPLITS
from tokenizer.vocabulary import Vocabulary

CORPUS = ["to be or not to be, that is the question", "日本語 日本語\n\n12 + 12 aaaaaaaaaaaa"] * 3
tok = tokenizer.train(CORPUS, vocab_size=330)
texts = st.text() | st.text("aeot bé\u0301<|end>日本12\n")


@pytest.fixture
def folder(tmp_path):
    tok.save(tmp_path, format="gpt2")
    return tmp_path


@pytest.fixture
def rank_file(tmp_path):
    tok.save(tmp_path / "own.tiktoken")
    return tmp_path / "own.tiktoken"


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
    with pytest.raises(TokenizerError, match=f"no words for split='{split}': save as tokenizer.json"):
        other.save(tmp_path, format="gpt2")
    assert not list(tmp_path.iterdir())


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
        (b"AA== -1", "id -1 is given to 1 token"),
        (b"", "byte 0x00 has no token"),
        (b"AA== 5\nAA== 900", "line 2 .* is there already"),
    ],
)
def test_a_bad_line_in_a_rank_file_is_named(rank_file, line, message):
    rank_file.write_bytes(rank_file.read_bytes().replace(b"AA== 5", line, 1))
    with pytest.raises(TokenizerError, match=message):
        tokenizer.load(rank_file, split="gpt2")


def test_a_rank_file_must_be_told_its_split(rank_file):
    with pytest.raises(TokenizerError, match=r"own.tiktoken does not say how text is cut.*cl100k_base.*split='gpt4'"):
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
        ({"nfc": True}, "no words for NFC"),
        ({"added": {"   ": 900}, "size": 901}, "no words for NFC or for added tokens"),
    ]:
        other = tokenizer.Tokenizer(Vocabulary(**(vars_of(vocabulary) | changed)))
        with pytest.raises(TokenizerError, match=message):
            other.save(tmp_path / "x.tiktoken")
    assert not list(tmp_path.iterdir())


def vars_of(vocabulary):
    return {name: getattr(vocabulary, name) for name in Vocabulary.__dataclass_fields__}


def test_unknown_formats_and_needless_options_are_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"unknown format 'tiktokn'.*did you mean 'tiktoken'"):
        tok.save(tmp_path, format="tiktokn")
    tok.save(tmp_path)
    with pytest.raises(TokenizerError, match="says itself how text is cut"):
        tokenizer.load(tmp_path, split="gpt2")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"cannot write .*file"):
        tok.save(tmp_path / "file" / "tokenizer.json")


def changed(**fields):
    return tokenizer.Tokenizer(Vocabulary(**(vars_of(tok.vocabulary) | fields)))


@pytest.mark.parametrize(
    "fields",
    [
        {"nfc": True},
        {"added": {"   ": 330, "<tool>": 331}, "size": 332},
        {"added": {"   ": 330, "<tool>": 331}, "size": 332, "late": frozenset(["   ", "<|end|>"]), "nfc": True},
        {"whole_words": True},
        {"before": ("<|endoftext|>",)},
        {"before": ("<|user|>", "<|end|>"), "after": ("<|endoftext|>",)},
    ],
)
def test_tokenizer_json_holds_everything(tmp_path, fields):
    saved = changed(**fields)
    saved.save(tmp_path)
    loaded = tokenizer.load(tmp_path)
    assert loaded.vocabulary == saved.vocabulary
    assert loaded.fingerprint() == saved.fingerprint() != tok.fingerprint()


@pytest.mark.parametrize(
    ("pre_tokenizer", "split"),
    [
        ({"type": "ByteLevel", "add_prefix_space": False}, "gpt2"),
        ({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": False}]}, "gpt2"),
        *((split.pre_tokenizer, name) for name, split in SPLITS.items()),
    ],
)
def test_pre_tokenizers_are_recognised(tmp_path, pre_tokenizer, split):
    tok.save(tmp_path)
    document = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    document["pre_tokenizer"] = pre_tokenizer
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    assert tokenizer.load(tmp_path).vocabulary.split == split


SPLIT = {"type": "Split", "pattern": {"Regex": SPLITS["gpt4"].pattern}, "behavior": "Isolated", "invert": False}
BARE = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "does not end with ByteLevel"),
        ([SPLIT], "does not end with ByteLevel"),
        ([5], "no list of objects"),
        ([SPLIT, SPLIT, BARE], "these steps together are not known"),
        ([SPLIT | {"pattern": {"Regex": "a+"}, "behavior": "Removed", "invert": True}, BARE], "its words are Removed"),
        ([SPLIT | {"pattern": {"String": " "}}, BARE], "it has no field pattern.Regex"),
        ([SPLIT | {"behavior": "Removed"}, BARE], "its words are Removed with invert False, expected Isolated"),
        ([SPLIT | {"behavior": "MergedWithNext"}, BARE], "its words are MergedWithNext"),
        ([{"type": "Digits"}, {"type": "ByteLevel", "add_prefix_space": False}], "individual_digits is not true"),
        ([{"type": "Whitespace"}, BARE], "these steps together are not known"),
    ],
)
def test_other_pre_tokenizers_are_named(tmp_path, steps, message):
    tok.save(tmp_path)
    document = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"field pre_tokenizer is .*" + message):
        tokenizer.load(tmp_path)


def test_a_pattern_of_ones_own_is_kept(tmp_path):
    own = tokenizer.train(CORPUS, vocab_size=300, split=r"[\p{L}\p{M}]+|\p{N}{1,2}|[^\p{L}\p{N}]")
    own.save(tmp_path)
    loaded = tokenizer.load(tmp_path)
    assert loaded.vocabulary == own.vocabulary
    assert loaded.encode(CORPUS[1]) == own.encode(CORPUS[1])


@pytest.mark.parametrize(
    "pattern", [r"\w+", r"\p{N}{1,3}+", r"a\b", "^a+", "a+$", "[a[b]]+", "[a&&b]", "(?s:.+)", "[[:punct:]]+", r"\h+"]
)
def test_a_pattern_that_others_read_differently_is_refused(tmp_path, pattern):
    own = tokenizer.train(["abc"], vocab_size=300, split=pattern)
    with pytest.raises(TokenizerError, match=r"which the engine that reads tokenizer\.json elsewhere"):
        own.save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("pattern", [split.pattern for name, split in SPLITS.items() if name != "none"])
def test_the_known_patterns_are_read_alike(pattern):
    check_pattern(pattern)
