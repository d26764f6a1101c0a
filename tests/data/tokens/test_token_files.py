from __future__ import annotations

import errno
import os
import weakref
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from minigrad.data.selection import Selection
from minigrad.data.split import split
from minigrad.data.tokens import token_files
from minigrad.errors import RunError
from minigrad.system.cache import cache_folder

END = 256


class Bytes:
    """A tokenizer whose tokens are the bytes of the text."""

    end_of_text_id = END

    def __init__(self, vocab_size=257, before=()):
        self.vocab_size, self.borders = vocab_size, (list(before), [])
        self.calls = 0

    def encode_batch(self, texts, *, threads=None):
        self.calls, self.threads = self.calls + 1, threads
        return [np.frombuffer(text.encode(), np.uint8).astype(np.int64) for text in texts]

    def fingerprint(self):
        return f"bytes of {self.vocab_size}"


def folder():
    return cache_folder() / "tokens"


def path_of(file):
    return Path(file.tokens.filename)


def stream_of(documents, first=(END,), each=()):
    return [*first, *(token for text in documents for token in (*each, *text.encode(), END))]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_documents_are_encoded_between_end_of_text_tokens(vocab_size, dtype):
    documents = ["one", "", "zwölf π"]
    tokens = token_files.prepare(documents, Bytes(vocab_size))
    assert tokens.tokens.tolist() == stream_of(documents)
    assert tokens.tokens.dtype == dtype
    assert tokens.num_bytes == 3 + 9
    assert len(tokens) == 3 + 9 + 4
    with pytest.raises(ValueError, match="read-only"):
        tokens.tokens[0] = 1


def test_a_text_is_encoded_by_the_threads_of_the_program(monkeypatch):
    monkeypatch.setattr(token_files.hardware, "threads", lambda: 3)
    tok = Bytes()
    token_files.prepare(["one"], tok)
    assert tok.threads == 3


@pytest.mark.parametrize(
    ("before", "first", "each"), [((END,), [END], []), ((257,), [], [257]), ((END, 257), [END], [257])]
)
def test_a_document_begins_as_its_tokenizer_says(before, first, each):
    documents, tok = ["one", "", "two"], Bytes(258, before)
    tokens = token_files.prepare(documents, tok)
    assert tokens.tokens.tolist() == stream_of(documents, first, each)
    assert tokens.tokens[: len(before)].tolist() == token_files.beginning(tok)
    assert tokens.num_bytes == 6
    plain = token_files.prepare(documents, Bytes(258))  # of the same fingerprint
    assert plain.tokens.tolist() == stream_of(documents)


def test_no_documents_are_no_tokens_also_where_each_would_begin_with_one():
    for _ in ("written", "found"):
        assert len(token_files.prepare([], Bytes(258, (257,))).tokens) == 0


DAMAGE = {
    "cut": lambda data: data[:-2],
    "cut in its header": lambda data: data[:100],
    "too long": lambda data: data + b"\0\0",
    "of another type": lambda data: data.replace(b"<u2", b"<i2"),
    "of two dimensions": lambda data: data.replace(b"(9,)", b"(9,1)"),
    "with an escape sequence in its header": lambda data: data.replace(b"fortran", b"\x1b[2Jran"),
    "with what is no token": lambda data: data[:-18] + b"\xff\xff" + data[-16:],
    "with another token": lambda data: data[:-20] + b"\x01\0" + data[-18:],
    "with another hash": lambda data: data[:-2] + b"\x01\x01",
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_written_anew(damage):
    documents = ["one", "two"]
    path = path_of(token_files.prepare(documents, Bytes()))
    whole = path.read_bytes()
    path.unlink()
    path.write_bytes(DAMAGE[damage](whole))
    assert token_files.prepare(documents, Bytes()).tokens.tolist() == stream_of(documents)
    assert path.read_bytes() == whole


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for():
    path = path_of(token_files.prepare(["one"], Bytes()))
    path.unlink()
    os.mkfifo(path)
    assert token_files.prepare(["one"], Bytes()).tokens.tolist() == stream_of(["one"])


def test_large_corpora_are_encoded_in_chunks(monkeypatch):
    monkeypatch.setattr(token_files, "CHUNK", 10)
    documents = ["four", "four", "four", "a long document", "one"]
    tokenizer = Bytes()
    assert token_files.prepare(documents, tokenizer).tokens.tolist() == stream_of(documents)
    assert tokenizer.calls == 3


def test_a_token_file_is_used_again():
    tokenizer = Bytes()
    first = token_files.prepare(["text"], tokenizer)
    again = token_files.prepare(["text"], tokenizer)
    assert tokenizer.calls == 1
    assert path_of(again) == path_of(first)
    assert again.digest == first.digest
    assert again.num_bytes == 4
    np.testing.assert_array_equal(again.tokens, first.tokens)


def test_the_file_of_a_selection_is_found_without_reading_it():
    train = split([f"document {number}" for number in range(99)]).train
    tokenizer = Bytes()
    first = token_files.prepare(train, tokenizer)
    assert first.tokens.tolist() == stream_of(train)
    assert first.num_bytes == sum(map(len, train))
    unread = Selection([], train.changed, train.seen, train.num_bytes)
    assert path_of(token_files.prepare(unread, tokenizer)) == path_of(first)


def test_a_token_file_belongs_to_its_documents_and_tokenizer():
    cases = [(["ab"], 257), (["a", "b"], 257), (["b", "a"], 257), (["ab", ""], 257), (["ab"], 300)]
    files = [token_files.prepare(texts, Bytes(size)) for texts, size in cases]
    paths = {path_of(file) for file in files}
    assert len(paths) == len(cases)
    assert len({file.digest for file in files[:4]}) == 4  # the fifth has the tokens of the first
    assert set(folder().iterdir()) == paths  # and no temporary file stays behind


@pytest.mark.parametrize("keep", [0, 5, -1])
def test_a_truncated_token_file_is_written_again(keep):
    path = path_of(token_files.prepare(["some text"], Bytes()))
    path.write_bytes(path.read_bytes()[:keep])
    tokens = token_files.prepare(["some text"], Bytes())
    assert tokens.tokens.tolist() == stream_of(["some text"])
    assert np.load(path).tolist() == stream_of(["some text"])


def test_tokens_stay_in_memory_if_no_file_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "tokens").write_text("a file where the folder should be", encoding="utf-8")
    written = token_files.prepare(["some text"], Bytes())
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    tokens = token_files.prepare(["some text"], Bytes())
    assert not isinstance(tokens.tokens, np.memmap)
    assert tokens.digest == written.digest == blake2b(tokens.tokens.tobytes(), digest_size=16).hexdigest()
    assert tokens.tokens.tolist() == stream_of(["some text"])
    with pytest.raises(ValueError, match="read-only"):
        tokens.tokens[0] = 1


@pytest.mark.parametrize(
    ("free", "reason"),
    [
        (30, "they need about 33 bytes, and 30 bytes are free"),  # before anything is encoded
        (60, r"they need about 208 bytes, and \d+ bytes are free"),  # after the first chunk
        (None, "No space left on device"),  # at the end
    ],
)
def test_a_long_text_for_which_the_disk_has_no_room_is_refused_and_nothing_half_written_is_left(
    tmp_path, monkeypatch, free, reason
):
    written = []

    def write(file, dtype, count):
        written.append(file)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(token_files, "CHUNK", 10)
    monkeypatch.setattr(token_files, "_IN_MEMORY", 99)
    if free is None:
        monkeypatch.setattr(token_files, "_write_header", write)
    else:
        monkeypatch.setattr(token_files.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    documents = ["0123456789" * 5] * 2
    with pytest.raises(RunError, match=rf"cannot keep the tokens of 100 bytes of text in .*: {reason}\. None"):
        token_files.prepare(documents, Bytes())
    assert list(folder().iterdir()) == []
    monkeypatch.setattr(token_files, "_IN_MEMORY", 100)  # a short text needs no disk
    kept = token_files.prepare(documents, Bytes())
    assert not isinstance(kept.tokens, np.memmap)
    assert kept.tokens.tolist() == stream_of(documents)
    assert list(folder().iterdir()) == []


def test_the_part_of_a_file_that_is_written_needs_no_room_again(monkeypatch):
    monkeypatch.setattr(token_files, "CHUNK", 10)
    monkeypatch.setattr(token_files, "_IN_MEMORY", 0)
    documents = ["0123456789" * 1_000] * 4
    size = token_files._HEADER + 2 * len(stream_of(documents)) + token_files._DIGEST

    def disk_usage(place):
        return SimpleNamespace(free=size + 100 - sum(path.stat().st_size for path in place.iterdir()))

    monkeypatch.setattr(token_files.shutil, "disk_usage", disk_usage)
    assert path_of(token_files.prepare(documents, Bytes())).stat().st_size == size


def test_documents_are_read_one_by_one(monkeypatch):
    """So that neither the text nor its tokens need to fit into memory."""
    monkeypatch.setattr(token_files, "CHUNK", 4)
    alive = weakref.WeakSet()

    class Text(str):
        __slots__ = ("__weakref__",)

    class Documents:
        def __iter__(self):
            for number in range(9):
                assert len(alive) <= 3
                text = Text(f"text {number}")
                alive.add(text)
                yield text

    found = token_files.prepare(Documents(), Bytes())
    assert found.tokens.tolist() == stream_of([f"text {number}" for number in range(9)])


def test_of_many_token_files_in_the_cache_those_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(token_files, "_KEPT", 2)
    first, second = [token_files.prepare([text], Bytes()) for text in ("one", "two")]
    os.utime(path_of(first), (0, 0))
    os.utime(path_of(second), (9, 9))
    token_files.prepare(["one"], Bytes())  # used again
    third = token_files.prepare(["three"], Bytes())
    assert set(folder().iterdir()) == {path_of(first), path_of(third)}


def test_documents_that_can_be_read_only_once_are_read_once():
    documents = ["to be", "or not"]
    once = token_files.prepare((document for document in documents), Bytes())
    again = token_files.prepare(documents, Bytes())
    assert len(once) == len(again) == len("".join(documents)) + 3
    assert once.digest == again.digest
