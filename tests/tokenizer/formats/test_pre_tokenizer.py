import json

import pytest

import tokenizer
from tokenizer import TokenizerError
from tokenizer.formats.pre_tokenizer import SPELLINGS, check_pattern, pre_tokenizer_of, split_of
from tokenizer.text.split import SPLITS

CORPUS = ["to be or not to be, that is the question", "日本語 日本語\n\n12 + 12 aaaaaaaaaaaa"] * 3
tok = tokenizer.train(CORPUS, vocab_size=330)


@pytest.mark.parametrize(
    ("pre_tokenizer", "split"),
    [
        ({"type": "ByteLevel", "add_prefix_space": False}, "gpt2"),
        ({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": False}]}, "gpt2"),
        *((pre_tokenizer_of(name), name) for name in SPLITS),
    ],
)
def test_pre_tokenizers_are_recognised(tmp_path, pre_tokenizer, split):
    tok.save(tmp_path)
    document = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    document["pre_tokenizer"] = pre_tokenizer
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    assert tokenizer.load(tmp_path).vocabulary.split == split


SPLIT = {"type": "Split", "pattern": {"Regex": SPLITS["gpt4"]}, "behavior": "Isolated", "invert": False}
BARE = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [SPLIT],
        [5],
        [SPLIT, SPLIT, BARE],
        [SPLIT | {"pattern": {"Regex": "a+"}, "behavior": "Removed", "invert": True}, BARE],
        [SPLIT | {"pattern": {"String": " "}}, BARE],
        [SPLIT | {"pattern": 5}, BARE],
        [SPLIT | {"behavior": "Removed"}, BARE],
        [SPLIT | {"behavior": "MergedWithNext"}, BARE],
        [SPLIT | {"invert": 5}, BARE],
        [SPLIT, BARE | {"use_regex": 5}],
        [SPLIT, BARE | {"add_prefix_space": True}],
        [{"type": "Digits"}, {"type": "ByteLevel", "add_prefix_space": False}],
        [{"type": "Whitespace"}, BARE],
    ],
)
def test_other_pre_tokenizers_are_named(tmp_path, steps):
    tok.save(tmp_path)
    document = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"field pre_tokenizer is .*only these can be loaded"):
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


@pytest.mark.parametrize("pattern", [pattern for name, pattern in SPLITS.items() if name != "none"])
def test_the_known_patterns_are_read_alike(pattern):
    check_pattern(pattern)


@pytest.mark.parametrize("split", [*SPLITS, r"\p{L}+|\p{N}"])
def test_a_split_comes_back_from_its_pre_tokenizer(split):
    assert split_of(pre_tokenizer_of(split)) == split


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_known_spelling_is_a_known_split(spelling):
    assert split_of({"type": "Sequence", "pretokenizers": [SPLIT | {"pattern": {"Regex": spelling}}, BARE]}) in SPLITS
