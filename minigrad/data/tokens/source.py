"""The interfaces of the text that a run trains on."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.token_files import Tokens


class Source(Protocol):
    """The batches of a run, each a function of seed and step: a checkpoint saves no position in the text."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the tokens of one step, about ``batch_size * context``, a function of the arguments alone."""

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens read before step `step`."""

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens in one pass over the data."""

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


class Reader(Source, Protocol):
    """A text with a context: batches of exactly ``batch_size * context`` tokens, and the spans to evaluate."""

    row: Tokens
    context: int

    def blocks(self, seed: int, begin: int, end: int) -> Batch:
        """Return blocks `begin` to `end` of the reading order, each of `context` tokens."""

    def spans(self) -> Spans:
        """Return the spans that are evaluated one by one."""

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the next `batch_size` blocks."""
        return self.blocks(seed, step * batch_size, (step + 1) * batch_size)

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens read before step `step`, with any seed."""
        return step * batch_size * self.context

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens of the text."""
        return len(self.row)
