import pytest

import tokenizer
from tokenizer import TokenizerError

CORPUS = ["to be or not to be, that is the question", "日本語 日本語\n\n12 + 12 aaaaaaaaaaaa"] * 3
tok = tokenizer.train(CORPUS, vocab_size=330)


def test_unknown_formats_and_needless_options_are_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"unknown format 'tiktokn'.*did you mean 'tiktoken'"):
        tok.save(tmp_path, format="tiktokn")
    tok.save(tmp_path)
    with pytest.raises(TokenizerError, match="contains its split and its special tokens"):
        tokenizer.load(tmp_path, split="gpt2")


@pytest.mark.parametrize(
    ("name", "format", "files"),
    [
        ("run", None, {"tokenizer.json", "tokenizer_config.json"}),
        ("own.json", None, set()),
        ("own.tiktoken", None, set()),
        ("run", "gpt2", {"vocab.json", "merges.txt", "tokenizer_config.json"}),
        ("run", "huggingface", {"tokenizer.json", "tokenizer_config.json"}),
        ("ranks.tiktoken", "tiktoken", set()),
    ],
)
def test_the_path_or_the_format_decides_what_is_written(tmp_path, name, format, files):
    tok.save(tmp_path / name, format=format)
    assert (tmp_path / name).is_dir() == bool(files)
    assert {file.name for file in (tmp_path / name).glob("*")} == files


def test_tokenizer_json_comes_before_gpt2s_files(tmp_path):
    other = tokenizer.train(CORPUS, vocab_size=300)
    other.save(tmp_path, format="gpt2")
    assert tokenizer.load(tmp_path).vocabulary == other.vocabulary
    tok.save(tmp_path)
    assert tokenizer.load(tmp_path).vocabulary == tok.vocabulary
    assert tokenizer.load(tmp_path / "merges.txt").vocabulary == other.vocabulary
