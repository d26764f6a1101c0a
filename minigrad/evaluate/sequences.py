"""The sequences in which a text is evaluated: every token is predicted exactly once, from enough context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch, gather
from minigrad.data.tokens.reading import reader
from minigrad.data.tokens.source import Spans
from minigrad.data.tokens.token_files import TokenFile, Tokens
from minigrad.errors import InputError


class Sequences(NamedTuple):
    """Where sequences begin in the row of tokens, their lengths, and how many of their first tokens are only read."""

    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    known: npt.NDArray[np.int64]


def sequences(spans: Spans, *, context: int, overlap: float = 0.5) -> Sequences:
    """Cut spans into sequences of at most `context` tokens that together predict every token of a span exactly once.

    A span longer than the context becomes sequences that overlap by the share `overlap` of the context; only the tokens
    after the overlap are predicted. So every token is predicted from at least ``overlap * context`` tokens, or from all
    tokens before it in its span. Raises InputError if there is nothing to predict or `overlap` is not in [0, 1].
    """
    total = int(spans.lengths.sum())
    if total < 1 or context < 1 or not 0 <= overlap <= 1:
        raise InputError(
            f"cannot evaluate {len(spans.row)} tokens with a context of {context} and an overlap of {overlap}: "
            "there must be 2 tokens, a context of at least 1 and an overlap between 0 and 1."
        )
    stride = max(1, context - int(overlap * context))
    # The first sequence of a span predicts `context` tokens, each further one `stride` more.
    counts = 1 + np.maximum(0, -(-(spans.lengths - context) // stride))
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # of a sequence in its span
    first = number * stride
    lengths = np.minimum(context, np.repeat(spans.lengths, counts) - first)
    return Sequences(np.repeat(spans.starts, counts) + first, lengths, np.where(number > 0, context - stride, 0))


def tokens_read(spans: Spans, *, context: int, overlap: float = 0.5) -> int:
    """Return the number of tokens in the `sequences` of these spans, including tokens that are only read.

    >>> spans = Spans(np.arange(20), np.array([0, 12]), np.array([12, 7]))
    >>> tokens_read(spans, context=8)  # the first eight of the first span, eight again from the fifth on; then seven
    23
    """
    return int(sequences(spans, context=context, overlap=overlap).lengths.sum())


def tokens_evaluated(documents: str, tokens: TokenFile | Tokens, context: int) -> int:
    """Return the number of tokens that are read to evaluate a text."""
    return tokens_read(reader(documents, tokens, context).spans(), context=context)


def evaluation_batches(
    spans: Spans, *, context: int, overlap: float = 0.5, rows: int = 1, limit: int | None = None
) -> Iterator[Batch]:
    """Yield the `sequences` of these spans in batches of at most `rows` tokens, or of a single longer sequence.

    Tokens that are only read have the target -100. With `limit`, only about that many tokens are read, in sequences
    spread evenly over the text. Raises InputError as `sequences` does.
    """
    every = sequences(spans, context=context, overlap=overlap)
    count, total = len(every.starts), int(every.lengths.sum())
    wanted = count if limit is None else min(count, max(1, limit * count // total))
    taken = np.arange(wanted) * count // wanted
    ends = np.cumsum(every.lengths[taken])
    first = 0
    while first < wanted:
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + rows, "right")))
        chosen = taken[first:last]
        batch = gather(spans.row, every.starts[chosen], every.lengths[chosen])
        batch.targets[batch.layout.positions < np.repeat(every.known[chosen], batch.layout.lengths)] = IGNORE
        yield batch
        first = last
