"""Documents as one long row of token ids on disk.

The file is written while the documents are read, so neither the text nor its tokens need to fit into memory. It is
memory-mapped: training reads windows of it and the system keeps the pages in use in memory.
"""

from __future__ import annotations

import errno
import hashlib
import io
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from minigrad.data.selection import DocumentPass, Selection
from minigrad.data.shares import length_as_one
from minigrad.errors import RunError
from minigrad.system import hardware
from minigrad.system.cache import cache_folder, mark_used, prune
from minigrad.system.files import reason, replacing
from minigrad.system.units import format_bytes
from minigrad.typing import Tokenizer

_KEPT = 64  # token files, the most recently used: one for each part of a text and each tokenizer
_IN_MEMORY = 1 << 28  # bytes of text whose tokens can stay in memory
_MOST_BYTES_PER_TOKEN = 6  # of a large vocabulary; usually 3 or 4
_HEADER, _DIGEST = 128, 16  # bytes before the tokens, and those of their hash behind them
CHUNK = 1 << 22  # characters: the tokens of a chunk are stored in 2 bytes each before the next chunk is encoded

Tokens = npt.NDArray[np.integer[Any]]
Document = TypeVar("Document", str, bytes)


@dataclass(frozen=True, eq=False)
class TokenFile:
    """The tokens of some documents, and the number of UTF-8 bytes of these documents."""

    tokens: Tokens  # (number of tokens,), read-only
    num_bytes: int  # of the documents as they are, before the tokenizer composed characters or added spaces
    digest: str  # a hash of the tokens: it changes with the text and with the tokenizer

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.tokens)

    @property
    def tokens_as_one(self) -> float:
        """The number of tokens; a mixture of texts counts differently (`TokenMixture.tokens_as_one`)."""
        return len(self)


def row_of(tokens: TokenFile | Tokens) -> Tokens:
    """Return the tokens of a file, or an array of tokens as it is."""
    return np.asarray(tokens.tokens if isinstance(tokens, TokenFile) else tokens)


@dataclass(frozen=True, eq=False)
class TokenMixture:
    """The tokens of several texts, each with its share of the tokens read; the shares add up to 1."""

    files: tuple[TokenFile, ...]
    shares: tuple[float, ...]

    @property
    def num_bytes(self) -> int:
        """The number of UTF-8 bytes of all texts."""
        return sum(file.num_bytes for file in self.files)

    @property
    def digest(self) -> str:
        """A hash of the tokens of all texts, one after the other."""
        digest = hashlib.blake2b(digest_size=_DIGEST)
        for file in self.files:
            for start in range(0, len(file), CHUNK):  # a file may be larger than the memory
                digest.update(np.ascontiguousarray(file.tokens[start : start + CHUNK]).data)
        return digest.hexdigest()

    def __len__(self) -> int:
        """Return the number of tokens of all texts."""
        return sum(map(len, self.files))

    @property
    def tokens_as_one(self) -> float:
        """The number of tokens of a single text that would be read as often (`length_as_one`)."""
        return length_as_one(self.shares, [len(file) for file in self.files])


def beginning(tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that begin every document: the tokenizer's own, or else the token between two documents."""
    return tokenizer.borders[0] or [tokenizer.end_of_text_id]


def prepare(documents: Iterable[str], tokenizer: Tokenizer) -> TokenFile:
    """Encode documents as `<eot> document <eot> document ... <eot>` and return them as a memory-mapped file.

    If the tokenizer begins documents with a token of its own, such as Llama's `<s>`, the row is `<s> document <eot> <s>
    document <eot> ... <eot>`: documents begin as the texts that a model writes.
    An iterator is read into memory first, because the documents are read twice.
    The file is kept in the cache folder, under a hash of the documents, of what begins them and of the tokenizer's
    fingerprint, and is used again; the cache keeps the most recently used files. A token takes 2 bytes for a vocabulary
    of up to 65,536, otherwise 4.
    Where the disk does not allow a file, the tokens of up to 256 MiB of text stay in memory; for more, RunError is
    raised. After an error nothing that was half written is left.
    """
    if isinstance(documents, Selection):
        seen: Selection | DocumentPass = documents  # it was read when it was chosen
    else:
        documents = list(documents) if iter(documents) is documents else documents
        seen = DocumentPass(documents)
        for _ in seen:
            pass
    num_bytes = seen.num_bytes
    _, each = _beginnings(tokenizer)
    name = hashlib.blake2b(tokenizer.fingerprint().encode() + seen.digest + each.tobytes(), digest_size=16).hexdigest()
    path = cache_folder() / "tokens" / f"{name}.npy"

    found = _open(path, tokenizer)
    if found is None:
        try:
            found = _written(path, documents, num_bytes, tokenizer)
        except OSError as error:
            if num_bytes > _IN_MEMORY:
                raise RunError(
                    f"cannot keep the tokens of {format_bytes(num_bytes)} of text in {path.parent}: {reason(error)}. "
                    "None of them was kept. Make room, or set MINIGRAD_CACHE to a folder on another disk."
                ) from error
            encoded = np.concatenate([tokens for tokens, _ in _encoded(documents, tokenizer)])
            encoded.flags.writeable = False
            found = encoded, hashlib.blake2b(encoded.data, digest_size=_DIGEST).hexdigest()
        else:
            prune(path.parent, keep=_KEPT)
    tokens, digest = found
    return TokenFile(tokens, num_bytes, digest)


def _written(path: Path, documents: Iterable[str], num_bytes: int, tokenizer: Tokenizer) -> tuple[Tokens, str]:
    """Write the tokens of documents that have `num_bytes` in all; raises OSError if the disk has no room for them.

    A rough estimate before the first document, and a better one after each chunk, decide hours before the disk would be
    full.
    """
    dtype = _dtype(tokenizer)
    path.parent.mkdir(parents=True, exist_ok=True)
    _check_room(path.parent, dtype.itemsize * num_bytes / _MOST_BYTES_PER_TOKEN)
    with replacing(path) as temporary, temporary.open("wb") as file:
        count, read, digest = 0, 0, hashlib.blake2b(digest_size=_DIGEST)
        _write_header(file, dtype, count)
        for tokens, size in _encoded(documents, tokenizer):
            count, read = count + len(tokens), read + size
            _check_room(path.parent, dtype.itemsize * count * (num_bytes / read if read else 1), file.tell())
            file.write(tokens.data)
            digest.update(tokens.data)
        file.write(digest.digest())  # NumPy reads as many numbers as the header says, and nothing behind them
        file.seek(0)
        _write_header(file, dtype, count)
    found = _open(path, tokenizer)
    if found is None:
        raise OSError(errno.EIO, "the file cannot be read again")
    return found


def _check_room(folder: Path, needed: float, written: int = 0) -> None:
    """Raise OSError if a disk has too little room for the rest of a file."""
    free = written + shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"they need about {format_bytes(needed)}, and {format_bytes(free)} are free")


def _write_header(file: BinaryIO, dtype: np.dtype[Any], count: int) -> None:
    """Write the first 128 bytes of a .npy file; they have room for any count."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(file, header)


def _dtype(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype(np.uint16 if tokenizer.vocab_size <= 65_536 else np.uint32)


def _beginnings(tokenizer: Tokenizer) -> tuple[Tokens, Tokens]:
    """Return the tokens before the first document, and those before each document.

    A beginning that starts with the end of text shares it with the document before.
    """
    begin = np.array(beginning(tokenizer), _dtype(tokenizer))
    shared = int(begin[0] == tokenizer.end_of_text_id)
    return begin[:shared], begin[shared:]


def _encoded(documents: Iterable[str], tokenizer: Tokenizer) -> Iterator[tuple[Tokens, int]]:
    """Yield the tokens of some documents at a time, and the bytes of their text."""
    first, each = _beginnings(tokenizer)
    end_of_text = np.array([tokenizer.end_of_text_id], first.dtype)
    yield first, 0
    for chunk in in_portions(documents, CHUNK):
        parts = tokenizer.encode_batch(chunk, threads=hardware.threads())
        whole = [part for ids in parts for part in (each, np.asarray(ids).astype(first.dtype), end_of_text)]
        yield np.concatenate(whole), sum(len(text.encode()) for text in chunk)


def _open(path: Path, tokenizer: Tokenizer) -> tuple[Tokens, str] | None:
    """Return the tokens in a file and their hash, its last bytes; None if it is missing or damaged."""
    dtype, header, digest = _dtype(tokenizer), io.BytesIO(), hashlib.blake2b(digest_size=_DIGEST)
    try:
        if not path.is_file():  # a pipe would never end
            return None
        count = (path.stat().st_size - _HEADER - _DIGEST) // dtype.itemsize
        _write_header(header, dtype, count)
        with path.open("rb") as file:
            if file.read(_HEADER) != header.getvalue():
                return None
            file.seek(-_DIGEST, io.SEEK_END)
            written = file.read()
        tokens: Tokens = np.memmap(path, dtype, mode="r", offset=_HEADER, shape=(count,))
        for start in range(0, count, CHUNK):
            digest.update(tokens[start : start + CHUNK].data)
    except (OSError, ValueError):  # it cannot be read, or is empty
        return None
    if digest.digest() != written:
        return None
    mark_used(path)
    return tokens, written.hex()


def in_portions(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    """Yield lists of documents in their order, each with at least `size` characters or bytes; the last has the rest.

    >>> list(in_portions(["one", "two", "three", "four"], 5))
    [['one', 'two'], ['three'], ['four']]
    """
    portion, length = list[Document](), 0
    for document in documents:
        portion.append(document)
        length += len(document)
        if length >= size:
            yield portion
            portion, length = [], 0
    if portion:
        yield portion
