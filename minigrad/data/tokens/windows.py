"""Windows of equal length, cut from the text without regard to documents, as a pure function of (seed, step).

There is no reader with a position that a checkpoint would have to save, and nothing to rewind on resume.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from minigrad.data.tokens.batches import Batch, gather
from minigrad.data.tokens.source import Reader, Spans
from minigrad.data.tokens.token_files import TokenFile, Tokens, row_of
from minigrad.errors import InputError
from minigrad.random import generator


class Windows(Reader):
    """A text as windows of `context` tokens; a window may begin in one document and end in another.

    Raises InputError if the text is too short for a single window.
    """

    def __init__(self, tokens: TokenFile | Tokens, context: int) -> None:
        self.row, self.context = row_of(tokens), context
        self.per_epoch = windows_per_epoch(len(self.row), context)

    def blocks(self, seed: int, begin: int, end: int) -> Batch:
        """Return windows `begin` to `end` of the whole reading order.

        Each epoch cuts the text into windows, beginning at a random shift, and takes each window once, in random order:
        no token is read twice before nearly all were read once. With another shift in every epoch, other tokens are at
        the beginning of a window, where the model has little context.
        """
        samples = np.arange(begin, end)
        epochs = np.unique(samples // self.per_epoch)
        orders = [_epoch(seed, int(epoch), len(self.row), self.context) for epoch in epochs]
        starts = np.concatenate(orders)[samples - epochs[0] * self.per_epoch]
        return gather(self.row, starts, np.full(end - begin, self.context))

    def spans(self) -> Spans:
        """Return the text as one span, for evaluation."""
        return Spans(self.row, np.array([0]), np.array([len(self.row) - 1]))

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens."""
        return float(self.context)

    def describe(self, batch_size: int) -> str:
        """Return what a step of any size reads, in words."""
        return " in windows that cross documents"


def windows_per_epoch(num_tokens: int, context: int) -> int:
    """Return the number of windows of `context` tokens in one epoch; it is the same in every epoch.

    Raises InputError if the text is too short for a single window.
    """
    if context < 1:
        raise InputError(f"a context of {context} tokens is not a window: --context must be at least 1.")
    if num_tokens < context + 1:
        raise InputError(
            f"the text has {num_tokens:,} tokens, but a context of {context:,} needs {context + 1:,}: "
            "use a smaller --context, more text, or --documents packed."
        )
    # One window less than fits, so that there is room for any shift below `context`.
    return max(1, num_tokens // context - 1)


@lru_cache(maxsize=2)  # a batch may reach from one epoch into the next
def _epoch(seed: int, epoch: int, num_tokens: int, context: int) -> npt.NDArray[np.int64]:
    """Return where the windows of an epoch start, in the order in which they are read."""
    windows = windows_per_epoch(num_tokens, context)
    draw = generator(seed, "data order", epoch)
    shift = draw.integers(min(context, num_tokens - windows * context))
    return shift + context * draw.permutation(windows)
