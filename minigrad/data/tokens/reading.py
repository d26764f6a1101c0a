"""Read token files: as packed documents or as windows, and several texts interleaved by their shares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from minigrad.data.shares import length_as_one
from minigrad.data.tokens.batches import Batch, join
from minigrad.data.tokens.documents import Documents
from minigrad.data.tokens.source import Reader, Source, Spans, Windows, in_a_row
from minigrad.data.tokens.token_files import TokenFile, TokenMixture, Tokens, row_of
from minigrad.random import generator

BLOCKS = 10_000  # in a plan


def reader(way: str, tokens: TokenFile | Tokens, context: int) -> Reader:
    """Return a text as ``"packed"`` documents or as ``"windows"``; raises InputError if it is too short."""
    return Documents(tokens, context) if way == "packed" else Windows(tokens, context)


def spans(way: str, tokens: TokenFile | Tokens, context: int) -> Spans:
    """Return a text as it is evaluated: the ``"packed"`` documents one by one, or all in a row (``"windows"``)."""
    return Documents(tokens, context).spans() if way == "packed" else in_a_row(row_of(tokens))


def training_source(way: str, tokens: TokenFile | TokenMixture, context: int) -> Source:
    """Return what a run trains on: one text, or several interleaved; raises InputError as `reader` does."""
    if isinstance(tokens, TokenMixture):
        return Interleaved([reader(way, file, context) for file in tokens.files], tokens.shares)
    return reader(way, tokens, context)


class Interleaved:
    """Several texts, each with a fixed share of the tokens, spread evenly over the steps; the shares add up to 1.

    The reading order is a row of blocks of `context` tokens. A plan assigns 10,000 blocks to the texts; the next plan
    has another order. Each text continues where its last block ended, so the tokens of a step are a function of seed
    and step.
    """

    def __init__(self, readers: Sequence[Reader], shares: Sequence[float]) -> None:
        self.readers, self.shares = readers, shares
        self.counts = apportioned(shares, BLOCKS)
        self._plan = lru_cache(maxsize=2)(self._order)  # a batch may reach from one plan into the next

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the tokens of one step: `batch_size` blocks of `context` tokens, a function of the arguments alone."""
        begins, ends = (self.blocks_before(seed, block * batch_size) for block in (step, step + 1))
        places = zip(self.readers, begins.tolist(), ends.tolist(), strict=True)
        return join([reader.blocks(seed, begin, end) for reader, begin, end in places if end > begin])

    def blocks_before(self, seed: int, block: int) -> npt.NDArray[np.int64]:
        """Return how many of the first `block` blocks are from each text."""
        plans, rest = divmod(block, BLOCKS)
        return plans * self.counts + np.bincount(self._plan(seed, plans)[:rest], minlength=len(self.counts))

    def _order(self, seed: int, plan: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the texts of the blocks of a plan: those of each text at even distances."""
        shifts = generator(seed, "mixture", plan).random(len(self.counts))
        places = [(np.arange(count) + shift) / count for count, shift in zip(self.counts, shifts, strict=True)]
        return np.repeat(np.arange(len(self.counts)), self.counts)[np.argsort(np.concatenate(places), kind="stable")]

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens that the steps before `step` read, with any seed."""
        return self.readers[0].tokens_before(step, seed=seed, batch_size=batch_size)

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens of a single text that would be read as often (`length_as_one`)."""
        return round(length_as_one(self.shares, [reader.tokens_per_pass(batch_size) for reader in self.readers]))

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens that are read."""
        return sum(share * reader.attended_length() for share, reader in zip(self.shares, self.readers, strict=True))

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words."""
        return f" of {len(self.readers)} texts"


def apportioned(shares: Sequence[float], total: int) -> npt.NDArray[np.int64]:
    """Return whole numbers with the sum `total`, as near to the shares of it as they can be, each at least 1.

    >>> apportioned([0.5, 0.3, 0.2], 10).tolist(), apportioned([2 / 3, 1 / 3], 10).tolist()
    ([5, 3, 2], [7, 3])
    """
    exact = np.array(shares) * total
    counts = np.maximum(exact.astype(np.int64), 1)
    for _ in range(abs(total - int(counts.sum()))):  # the largest remainders first
        step = 1 if total > counts.sum() else -1
        remainders = np.where((counts > 1) | (step > 0), step * (exact - counts), -np.inf)
        counts[np.argmax(remainders)] += step
    return counts
