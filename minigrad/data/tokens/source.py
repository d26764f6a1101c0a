"""The interfaces of the text that a run trains on, and the simplest reader: windows of equal length."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from minigrad.data.tokens.batches import Batch, gather
from minigrad.data.tokens.token_files import TokenFile, Tokens, row_of
from minigrad.errors import InputError
from minigrad.random import generator


class Source(Protocol):
    """The batches of a run, each a function of seed and step: a checkpoint saves no position in the text."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the tokens of one step, about ``batch_size * context``, a function of the arguments alone."""

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens read before step `step`."""

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens in one pass over the data; 0 if these have no end."""

    def attended_length(self) -> float:
        """Return the mean sequence length, weighted by tokens."""

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words that follow its number of tokens."""


class Spans(NamedTuple):
    """Texts that are evaluated one by one: single documents, or all documents in a row as one text.

    Span i begins at ``starts[i]`` of `row`; each of its ``lengths[i]`` tokens predicts the next.
    Shapes: row (n,), starts and lengths (spans,).
    """

    row: Tokens
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]


def in_a_row(row: Tokens) -> Spans:
    """Return a whole text as one span, for evaluation; it may be shorter than a window."""
    return Spans(row, np.array([0]), np.array([len(row) - 1]))


class Reader(Source, Protocol):
    """A text with a context: batches of exactly ``batch_size * context`` tokens."""

    row: Tokens
    context: int

    def blocks(self, seed: int, begin: int, end: int) -> Batch:
        """Return blocks `begin` to `end` of the reading order, each of `context` tokens."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the next `batch_size` blocks."""
        return self.blocks(seed, step * batch_size, (step + 1) * batch_size)

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens read before step `step`, with any seed."""
        return step * batch_size * self.context

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens of the text."""
        return len(self.row)


class Windows(Reader):
    """A text as windows of `context` tokens; a window may begin in one document and end in another.

    Raises InputError if the text is too short for a single window.
    """

    def __init__(self, tokens: TokenFile | Tokens, context: int) -> None:
        self.row, self.context = row_of(tokens), context
        if context < 1:
            raise InputError(f"a context of {context} tokens is not a window: --context must be at least 1.")
        if len(self.row) < context + 1:
            raise InputError(
                f"the text has {len(self.row):,} tokens, but a context of {context:,} needs {context + 1:,}: "
                "use a smaller --context, more text, or --documents packed."
            )
        # One window less than fits, if two fit, so that there is room for any shift below `context`.
        self.per_epoch = max(1, len(self.row) // context - 1)
        self._epoch = lru_cache(maxsize=2)(self._starts)  # a batch may reach from one epoch into the next

    def blocks(self, seed: int, begin: int, end: int) -> Batch:
        """Return windows `begin` to `end` of the whole reading order.

        Each epoch cuts the text into windows, beginning at a random shift, and takes each window once, in random order;
        less than two windows of the text are left out of an epoch. With another shift in every epoch, other tokens are
        at the beginning of a window, where the model has little context. If two windows fit, the tokens at the end of
        the text that fill no further one, fewer than `context`, are never read.
        """
        samples = np.arange(begin, end)
        epochs = np.unique(samples // self.per_epoch)
        orders = [self._epoch(seed, int(epoch)) for epoch in epochs]
        starts = np.concatenate(orders)[samples - epochs[0] * self.per_epoch]
        return gather(self.row, starts, np.full(end - begin, self.context))

    def _starts(self, seed: int, epoch: int) -> npt.NDArray[np.int64]:
        """Return where the windows of an epoch start, in the order in which they are read."""
        draw, context = generator(seed, "data order", epoch), self.context
        shift = draw.integers(min(context, len(self.row) - self.per_epoch * context))
        return shift + context * draw.permutation(self.per_epoch)

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens."""
        return float(self.context)

    def describe(self, batch_size: int) -> str:
        """Return what a step of any size reads, in words."""
        return " in windows that cross documents"
