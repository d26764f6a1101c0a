"""Documents become one long row of token numbers on disk; steps of training read windows of it.

What a step reads is a pure function of (seed, step). There is no reader with a position that a checkpoint
would have to save, and nothing to rewind on resume.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from minigrad.cache import cache_folder, store
from minigrad.errors import InputError
from minigrad.ops.cross_entropy import IGNORE
from minigrad.random import generator

LOT = 1 << 22  # characters the tokenizer gets at a time: its results shrink to 2 bytes before the next lot

Tokens = npt.NDArray[np.integer[Any]]
Batch = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


class Tokenizer(Protocol):
    """What `prepare` needs of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """Every token number is below it."""

    @property
    def end_of_text_id(self) -> int:
        """The token that stands between documents."""

    def encode_batch(self, texts: list[str], /) -> Sequence[npt.ArrayLike]:
        """Return the token numbers of each text."""

    def fingerprint(self) -> str:
        """Return a name that two tokenizers share only if they encode every text alike."""


@dataclass(frozen=True, eq=False)
class TokenFile:
    """The tokens of some documents, and the number of UTF-8 bytes that they stand for."""

    tokens: Tokens  # (number of tokens,), read-only
    num_bytes: int  # what a loss in bits per byte divides by
    path: Path | None  # where the tokens lie on disk; None if they had to stay in memory

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.tokens)


def prepare(documents: Sequence[str], tokenizer: Tokenizer, *, folder: Path | None = None) -> TokenFile:
    """Encode documents as `<eot> document <eot> document ... <eot>` and return them as a memory-mapped file.

    The file lies in `folder`, by default `tokens` in the cache folder, under a hash of the texts and of the
    tokenizer's fingerprint, and is used again. A token takes 2 bytes up to a vocabulary of 65,536, then 4.
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
        if tokens is None:
            return TokenFile(encoded, num_bytes, None)
    return TokenFile(tokens, num_bytes, path)


def windows_per_epoch(num_tokens: int, context: int) -> int:
    """Return how many windows of `context` tokens one pass over the text gives, the same in every epoch.

    Raises InputError if the text is too short for a single one.
    """
    if context < 1:
        raise InputError(f"a context of {context} tokens is no window: --context must be at least 1.")
    if num_tokens < context + 1:
        raise InputError(
            f"the text has {num_tokens:,} tokens, but a context of {context:,} needs {context + 1:,}: "
            "use a smaller --context or more text."
        )
    # One window less than fits, so that any shift below `context` leaves room for this many.
    return max(1, num_tokens // context - 1)


def batch(
    tokens: TokenFile | Tokens,
    *,
    seed: int,
    step: int,
    batch_size: int,
    context: int,
    micro: int = 0,
    accumulate: int = 1,
) -> Batch:
    """Return (inputs, targets) of one step, or of part `micro` of the `accumulate` parts of one step.

    Each epoch cuts the text into windows of `context` tokens, beginning at a random shift, and takes each
    window once, in random order: no token is seen twice before nearly all were seen once. Another shift in
    every epoch puts other tokens at the beginning of a window, where a model has little to go by.

    Shapes: inputs and targets (batch_size, context), int32; a target is the token after its input.
    Raises InputError if the text is shorter than one window.
    """
    row = _row(tokens)
    windows = windows_per_epoch(len(row), context)
    first = (step * accumulate + micro) * batch_size
    starts = []
    for sample in range(first, first + batch_size):
        epoch, place = divmod(sample, windows)
        starts.append(_epoch(seed, epoch, len(row), context)[place])
    both = np.stack([row[start : start + context + 1] for start in starts]).astype(np.int32)
    return np.ascontiguousarray(both[:, :-1]), np.ascontiguousarray(both[:, 1:])


def evaluation_windows(
    tokens: TokenFile | Tokens,
    *,
    context: int,
    overlap: float = 0.5,
    batch_size: int = 1,
    max_windows: int | None = None,
) -> Iterator[Batch]:
    """Yield batches of (inputs, targets) that together predict every token after the first exactly once.

    Windows overlap by the share `overlap` of `context`, and only what lies behind the overlap is a target.
    So every token is predicted from at least `overlap * context` tokens, or from all there are. Without an
    overlap, the first tokens of each window would be guessed from next to nothing. With `max_windows`, only so many
    are taken, spread evenly over the text.

    Shapes: (batch_size, context) int32 always; what is not to be scored has the target -100, empty places the
    input 0. Average over all targets by counting those that are not -100.
    Raises InputError if there is nothing to predict or `overlap` is not in [0, 1].
    """
    row = _row(tokens)
    if len(row) < 2 or context < 1 or not 0 <= overlap <= 1:
        raise InputError(
            f"cannot score {len(row)} tokens with a context of {context} and an overlap of {overlap}: "
            "there must be 2 tokens, a context of at least 1 and an overlap between 0 and 1."
        )
    stride = max(1, context - int(overlap * context))
    # The first window predicts `context` tokens, each further one `stride` more.
    windows = 1 + max(0, -(-(len(row) - 1 - context) // stride))
    wanted = min(windows, max_windows or windows)
    for first in range(0, wanted, batch_size):
        inputs = np.zeros((batch_size, context), np.int32)
        targets = np.full((batch_size, context), IGNORE, np.int32)
        for place, number in enumerate(range(first, min(first + batch_size, wanted))):
            window = number * windows // wanted
            text = row[window * stride : window * stride + context + 1]
            known = context - stride if window else 0
            inputs[place, : len(text) - 1] = text[:-1]
            targets[place, known : len(text) - 1] = text[known + 1 :]
        yield inputs, targets


@lru_cache(maxsize=2)  # a batch may reach from one epoch into the next
def _epoch(seed: int, epoch: int, num_tokens: int, context: int) -> npt.NDArray[np.int64]:
    """Return where the windows of an epoch start, in the order in which they are read."""
    windows = windows_per_epoch(num_tokens, context)
    draw = generator(seed, "data order", epoch)
    shift = draw.integers(min(context, num_tokens - windows * context))
    return shift + context * draw.permutation(windows)


def _row(tokens: TokenFile | Tokens) -> Tokens:
    return np.asarray(tokens.tokens if isinstance(tokens, TokenFile) else tokens)


def _encode(documents: Sequence[str], tokenizer: Tokenizer) -> Tokens:
    dtype: type[np.unsignedinteger[Any]] = np.uint16 if tokenizer.vocab_size <= 65_536 else np.uint32
    end_of_text = np.array([tokenizer.end_of_text_id], dtype)
    parts: list[Tokens] = [end_of_text]
    for lot in _lots(documents):
        for ids in tokenizer.encode_batch(lot):
            parts += [np.asarray(ids).astype(dtype), end_of_text]
    return np.concatenate(parts)


def _lots(documents: Sequence[str]) -> Iterator[list[str]]:
    lot: list[str] = []
    size = 0
    for document in documents:
        lot.append(document)
        size += len(document)
        if size >= LOT:
            yield lot
            lot, size = [], 0
    if lot:
        yield lot


def _open(path: Path) -> Tokens | None:
    try:
        tokens: Tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # not there, or shorter than its header says
        return None
    return tokens
