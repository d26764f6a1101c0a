"""Documents packed into batches: nothing is padded, nothing is left out, and no document continues another.

A batch is a fixed number of tokens: whole documents, and pieces of longer documents. Each is a sequence of its own: its
positions begin at 0, and it attends to nothing outside itself; a piece does not attend to the rest of its document
either. So the model is trained on its later task, the continuation of one text.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from minigrad.data.tokens.batches import Batch, balanced, gather
from minigrad.data.tokens.source import Reader, Spans
from minigrad.data.tokens.token_files import TokenFile, Tokens, row_of
from minigrad.errors import InputError
from minigrad.random import generator
from minigrad.system.units import format_estimate, plural

_Integers = npt.NDArray[np.int64]
_PART = 1 << 24  # tokens that are searched for the ends of documents at a time


class Documents(Reader):
    """A text as documents; each ends with the token that the row of tokens ends with, which is its last target.

    If the row begins with the same token, this token also begins the next document. Otherwise documents have a token of
    their own to begin with. It is given and never predicted, as nothing is predicted from the end of a document.
    Raises InputError if there is no token to predict.
    """

    def __init__(self, tokens: TokenFile | Tokens, context: int) -> None:
        self.row, self.context = row_of(tokens), context
        if len(self.row) < 2 or context < 1:
            raise InputError(
                f"the text has {plural(len(self.row), 'token')} and the context is {context:,}: "
                "there must be 2 tokens and a context of at least 1."
            )
        parts = range(1, len(self.row), _PART)  # a row on disk may be larger than the memory
        ends = np.concatenate([np.flatnonzero(self.row[at : at + _PART] == self.row[-1]) + at for at in parts])
        self.starts = np.append(0, ends[:-1] + (self.row[0] != self.row[-1]))
        self.lengths = ends - self.starts
        self.num_rows = int(self.lengths.sum())  # tokens that have a target
        self._pieces_of = -(-self.lengths // context)  # the number of pieces of each document, as few as possible
        self._epoch = lru_cache(maxsize=2)(self._pieces)  # a batch may reach from one epoch into the next

    def blocks(self, seed: int, begin: int, end: int) -> Batch:
        """Return blocks `begin` to `end` of the whole reading order, each of `context` tokens.

        Each epoch cuts the long documents into pieces and puts all documents and pieces in a random order, one after
        the other: a row of tokens from which every step takes the next part. So each token is read once in an epoch.
        A piece at the border of two steps is cut there. The sequences of a step are ordered so that its halves, the
        halves of these and so on have about equally many tokens.
        """
        first, last = begin * self.context, end * self.context
        starts, lengths = [], []
        for epoch in range(first // self.num_rows, -(-last // self.num_rows)):
            begins, ends, places = self._epoch(seed, epoch)
            inside = slice(
                np.searchsorted(ends, first - epoch * self.num_rows, "right"),
                np.searchsorted(begins, last - epoch * self.num_rows, "left"),
            )
            low = np.maximum(begins[inside], first - epoch * self.num_rows)
            starts.append(places[inside] + low - begins[inside])
            lengths.append(np.minimum(ends[inside], last - epoch * self.num_rows) - low)
        start, length = np.concatenate(starts), np.concatenate(lengths)
        order = balanced(length)
        return gather(self.row, start[order], length[order])

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens in an epoch."""
        return self.num_rows

    def _pieces(self, seed: int, epoch: int) -> tuple[_Integers, _Integers, _Integers]:
        """Return the pieces of an epoch in reading order: where each begins and ends in it, and its place in the text.

        A document is cut every `context` tokens from a random shift on, which adds no piece: in another epoch, other
        tokens are at the beginning of a piece, where the model has little context.
        """
        draw, counts = generator(seed, "document order", epoch), self._pieces_of
        shift = draw.integers(counts * self.context - self.lengths + 1)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # of a piece in its document
        first = np.maximum(number * self.context - np.repeat(shift, counts), 0)
        last = np.minimum((number + 1) * self.context - np.repeat(shift, counts), np.repeat(self.lengths, counts))
        order = draw.permutation(len(number))
        ends = np.cumsum((last - first)[order])
        return ends - (last - first)[order], ends, (np.repeat(self.starts, counts) + first)[order]

    def spans(self) -> Spans:
        """Return the documents; each is evaluated on its own."""
        return Spans(self.row, self.starts, self.lengths)

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens."""
        begins, ends, _ = self._epoch(0, 0)
        return float(((ends - begins) ** 2).sum() / self.num_rows)

    def describe(self, batch_size: int) -> str:
        """Return how many documents and pieces of longer ones a step reads on average, in words."""
        is_whole, per_step = self._pieces_of == 1, batch_size * self.context
        each = is_whole.sum(), self._pieces_of[~is_whole].sum()
        documents, pieces = (format_estimate(number / self.num_rows * per_step) for number in each)
        endings = ["" if count == "1" else "s" for count in (documents, pieces)]
        return f": about {documents} document{endings[0]} and {pieces} piece{endings[1]} of longer ones"
