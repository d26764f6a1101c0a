"""The types that all packages use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
"""A NumPy array of any shape and type; docstrings give the shapes."""

Arrays = Mapping[str, Array]
"""Arrays by name, as a file holds them."""

PathLike = str | os.PathLike[str]


class StreamDecoder(Protocol):
    """Decodes token ids that arrive one by one."""

    def push(self, token: int, /) -> str:
        """Return the characters that this token completes."""

    def flush(self) -> str:
        """Return the text of the bytes that are left, which form no whole character."""


class ChatForm(Protocol):
    """The form in which a model reads conversations."""

    def encode(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """Return the token ids of messages and, if wanted, of the beginning of an answer."""


class Tokenizer(Protocol):
    """The interface of a tokenizer that training and generation use."""

    @property
    def vocab_size(self) -> int:
        """All token ids are smaller than this number."""

    @property
    def used(self) -> int:
        """The number of ids in use."""

    @property
    def ids(self) -> list[int]:
        """The ids in use, in rising order."""

    @property
    def specials(self) -> Mapping[str, int]:
        """The special tokens and their ids."""

    @property
    def end_of_text_id(self) -> int:
        """The token between two documents."""

    @property
    def padding_id(self) -> int | None:
        """The token that fills the shorter rows of a padded batch, if there is one."""

    @property
    def borders(self) -> tuple[list[int], list[int]]:
        """The ids that it puts before and after every document; often none."""

    def encode(self, text: str, /) -> list[int]:
        """Return the token ids of a text."""

    def encode_batch(self, texts: list[str], /, *, threads: int | None = None) -> Sequence[ArrayLike]:
        """Return the token ids of each text, found by this many threads."""

    def decode(self, ids: Iterable[int], /) -> str:
        """Return the text of token ids."""

    def decode_bytes(self, ids: Iterable[int], /) -> bytes:
        """Return the bytes of token ids."""

    def stream_decoder(self) -> StreamDecoder:
        """Return a decoder that takes one id at a time."""

    def fingerprint(self) -> str:
        """Return a name that is equal for two tokenizers only if they encode every text in the same way."""

    def save(self, path: str | Path, /) -> None:
        """Write the tokenizer into a folder."""
