from __future__ import annotations

import os

import numpy as np
import pytest

from minigrad.data import token_files

END = 256


class Bytes:
    """A tokenizer whose tokens are the bytes of the text."""

    end_of_text_id = END

    def __init__(self, vocab_size=257):
        self.vocab_size = vocab_size
        self.calls = 0

    def encode_batch(self, texts):
        self.calls += 1
        return [np.frombuffer(text.encode(), np.uint8).astype(np.int64) for text in texts]

    def fingerprint(self):
        return f"bytes of {self.vocab_size}"


def stream_of(documents):
    return [END] + [token for text in documents for token in (*text.encode(), END)]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_documents_are_encoded_between_end_of_text_tokens(tmp_path, vocab_size, dtype):
    documents = ["one", "", "zwölf π"]
    tokens = token_files.prepare(documents, Bytes(vocab_size), folder=tmp_path)
    assert tokens.tokens.tolist() == stream_of(documents)
    assert tokens.tokens.dtype == dtype
    assert tokens.num_bytes == 3 + 9
    assert len(tokens) == 3 + 9 + 4
    assert tokens.path is not None
    assert tokens.path.parent == tmp_path
    with pytest.raises(ValueError, match="read-only"):
        tokens.tokens[0] = 1


def test_large_corpora_are_encoded_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(token_files, "CHUNK", 10)
    documents = ["four", "four", "four", "a long document", "one"]
    tokenizer = Bytes()
    assert token_files.prepare(documents, tokenizer, folder=tmp_path).tokens.tolist() == stream_of(documents)
    assert tokenizer.calls == 3


def test_a_token_file_is_used_again(tmp_path):
    tokenizer = Bytes()
    first = token_files.prepare(["text"], tokenizer, folder=tmp_path)
    again = token_files.prepare(["text"], tokenizer, folder=tmp_path)
    assert tokenizer.calls == 1
    assert again.path == first.path
    assert again.num_bytes == 4
    np.testing.assert_array_equal(again.tokens, first.tokens)


def test_a_token_file_belongs_to_its_documents_and_tokenizer(tmp_path):
    cases = [(["ab"], 257), (["a", "b"], 257), (["b", "a"], 257), (["ab", ""], 257), (["ab"], 300)]
    paths = {token_files.prepare(texts, Bytes(size), folder=tmp_path).path for texts, size in cases}
    assert len(paths) == len(cases)
    assert len(list(tmp_path.iterdir())) == len(cases)  # and no temporary file stays behind


@pytest.mark.parametrize("keep", [0, 5, -1])
def test_a_truncated_token_file_is_written_again(tmp_path, keep):
    path = token_files.prepare(["some text"], Bytes(), folder=tmp_path).path
    path.write_bytes(path.read_bytes()[:keep])
    tokens = token_files.prepare(["some text"], Bytes(), folder=tmp_path)
    assert tokens.tokens.tolist() == stream_of(["some text"])
    assert np.load(path).tolist() == stream_of(["some text"])


def test_tokens_stay_in_memory_if_no_file_can_be_written(tmp_path):
    (tmp_path / "taken").write_text("a file where the folder should be", encoding="utf-8")
    tokens = token_files.prepare(["some text"], Bytes(), folder=tmp_path / "taken")
    assert tokens.path is None
    assert tokens.tokens.tolist() == stream_of(["some text"])
    with pytest.raises(ValueError, match="read-only"):
        tokens.tokens[0] = 1


def test_token_files_go_to_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    assert token_files.prepare(["text"], Bytes()).path.parent == tmp_path / "tokens"


def test_of_many_token_files_in_the_cache_those_used_last_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    monkeypatch.setattr(token_files, "_KEPT", 2)
    first, *_ = [token_files.prepare([text], Bytes()) for text in ("one", "two")]
    for path in (tmp_path / "tokens").iterdir():
        os.utime(path, (0, 0))
    token_files.prepare(["one"], Bytes())  # used again
    third = token_files.prepare(["three"], Bytes())
    assert set((tmp_path / "tokens").iterdir()) == {first.path, third.path}
