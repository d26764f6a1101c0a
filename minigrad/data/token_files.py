"""Documents as one long row of token ids on disk.

The file is memory-mapped: training reads windows of it and the system keeps in memory what is in use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from minigrad.system.cache import cache_folder, mark_used, prune, store
from minigrad.typing import Tokenizer

_KEPT = 64  # token files: two for each text and tokenizer that were used last
CHUNK = 1 << 22  # characters: the tokens of a chunk are stored in 2 bytes each before the next chunk is encoded

Tokens = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class TokenFile:
    """The tokens of some documents, and the number of UTF-8 bytes of these documents."""

    tokens: Tokens  # (number of tokens,), read-only
    num_bytes: int  # a loss in bits per byte divides by it
    path: Path | None  # of the file; None if the tokens had to stay in memory

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.tokens)


def row_of(tokens: TokenFile | Tokens) -> Tokens:
    """Return the tokens of a file, or an array of tokens as it is."""
    return np.asarray(tokens.tokens if isinstance(tokens, TokenFile) else tokens)


def prepare(documents: Sequence[str], tokenizer: Tokenizer, *, folder: Path | None = None) -> TokenFile:
    """Encode documents as `<eot> document <eot> document ... <eot>` and return them as a memory-mapped file.

    The file is kept in `folder`, by default `tokens` in the cache folder, under a hash of the documents and of the
    tokenizer's fingerprint, and is used again; of many in the cache, those that were used last are kept. A token takes
    2 bytes up to a vocabulary of 65,536, then 4.
    Where the disk does not allow a file, the tokens stay in memory.
    """
    digest = hashlib.blake2b(tokenizer.fingerprint().encode(), digest_size=16)
    num_bytes = 0
    for document in documents:
        text = document.encode()
        digest.update(len(text).to_bytes(8, "little") + text)  # with the length: ["ab"] is not ["a", "b"]
        num_bytes += len(text)
    path = (folder or cache_folder() / "tokens") / f"{digest.hexdigest()}.npy"

    tokens = _open(path)
    if tokens is None:
        encoded = _encode(documents, tokenizer)
        encoded.flags.writeable = False
        if store(path, lambda file: np.save(file, encoded)):
            tokens = _open(path)
            if folder is None:
                prune(path.parent, keep=_KEPT)
        if tokens is None:
            return TokenFile(encoded, num_bytes, None)
    return TokenFile(tokens, num_bytes, path)


def _encode(documents: Sequence[str], tokenizer: Tokenizer) -> Tokens:
    dtype: type[np.unsignedinteger[Any]] = np.uint16 if tokenizer.vocab_size <= 65_536 else np.uint32
    end_of_text = np.array([tokenizer.end_of_text_id], dtype)
    parts: list[Tokens] = [end_of_text]
    for chunk in _chunks(documents):
        for ids in tokenizer.encode_batch(chunk):
            parts += [np.asarray(ids).astype(dtype), end_of_text]
    return np.concatenate(parts)


def _chunks(documents: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document)
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _open(path: Path) -> Tokens | None:
    try:
        tokens: Tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # not there, or shorter than its header says
        return None
    mark_used(path)
    return tokens
