"""The losses of a model on text that it was not trained on, in bits per byte, and how the text is cut into sequences.

A loss per token depends on the length of the tokens. The sum of the losses divided by the bytes of the text does not:
it is the size to which the model could compress the text, so it can be compared with a compressor.

The same pass shows whether the model copies from its context. Where a pair of tokens stood side by side earlier in the
sequence, attention can find the earlier place of the first token and predict what followed it there (an induction head:
Elhage et al. 2021, Olsson et al. 2022). A model learns that rather suddenly; then its loss on repeated pairs falls.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from minigrad.autograd.graph import no_grad
from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch, gather
from minigrad.data.tokens.source import Spans
from minigrad.distributed.world import ALONE, World
from minigrad.errors import InputError
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.module import in_evaluation
from minigrad.typing import Array


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


def tokens_read(spans: Spans, *, context: int) -> int:
    """Return the number of tokens in the `sequences` of these spans, including tokens that are only read."""
    return int(sequences(spans, context=context).lengths.sum())


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


BATCH_TOKENS = 4_096
"""The number of tokens that are evaluated at a time."""


@dataclass(frozen=True)
class Score:
    """The result of an evaluation; losses are in nats per token, NaN without such tokens."""

    loss: float
    bits_per_byte: float
    tokens: int  # predicted
    loss_repeated: float  # of tokens that complete a pair seen before in their sequence
    loss_others: float

    @classmethod
    def of(cls, sums: Array) -> Score:
        """Return the score of five sums: the nats of tokens that complete no pair and of others, both counts, bytes."""
        nats, counts, num_bytes = sums[:2], sums[2:4], float(sums[4])
        others, copied = (total / count if count else math.nan for total, count in zip(nats, counts, strict=True))
        every, tokens = float(nats.sum()), int(counts.sum())
        return cls(every / max(tokens, 1), bits_per_byte(every, num_bytes), tokens, float(copied), float(others))


def bits_per_byte(nats: float, num_bytes: float) -> float:
    """Convert a sum of losses in nats to bits per byte.

    >>> bits_per_byte(math.log(2) * 8, 4)
    2.0
    """
    return nats / math.log(2) / max(num_bytes, 1)


def evaluate(
    model: LanguageModel,
    spans: Spans,
    byte_lengths: Array,
    *,
    context: int,
    limit: int | None = None,
    watch: Callable[[Iterator[Batch]], Iterator[Batch]] = iter,
    world: World = ALONE,
) -> Score:
    """Evaluate a model on the spans of a text, with dropout off.

    Every token is predicted once, from at least half a context if its span is long enough. With `limit`, about that
    many tokens are read, in sequences spread evenly over the text: a cheaper estimate. `byte_lengths` (V,) is the
    number of bytes of each token. `watch` may measure the batches as they are taken. The processes of a `world` share
    them.
    """
    batches = evaluation_batches(spans, context=context, rows=BATCH_TOKENS, limit=limit)
    sums = np.zeros(5)
    for batch, losses in predictions(model, watch(itertools.islice(batches, world.rank, None, world.size))):
        counted = batch.targets != IGNORE
        repeated = completes_a_pair(batch)[counted].astype(int)
        sums[:2] += np.bincount(repeated, losses[counted], 2)
        sums[2:4] += np.bincount(repeated, minlength=2)
        sums[4] += byte_lengths[batch.targets[counted]].sum()
    world.add(sums)
    return Score.of(sums)


def predictions(model: LanguageModel, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Array]]:
    """Yield each batch and the loss of each of its targets in nats (rows,), 0 where none counts, with dropout off."""
    for batch in batches:
        with in_evaluation(model), no_grad():  # not while the caller has the batch
            losses = model.losses(batch.tokens, batch.targets, layout=batch.layout).data
        yield batch, losses


def completes_a_pair(batch: Batch) -> npt.NDArray[np.bool_]:
    """Return for each row (rows,) whether its token and its target stood side by side earlier in the same sequence.

    >>> batch = Batch.rectangular([[1, 2, 3, 1, 2, 2]], [[2, 3, 1, 2, 2, 2]])
    >>> completes_a_pair(batch).tolist()
    [False, False, False, True, False, True]
    """
    offsets = batch.layout.offsets
    following = np.append(batch.tokens[1:], 0)  # a target of -100 hides what follows a token, so it is not used
    last = offsets[1:][np.diff(offsets) > 0] - 1
    following[last] = batch.targets[last]
    sequence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    columns: list[Array] = [sequence, batch.tokens, following]
    order = np.lexsort(columns)  # stable, so equal pairs of a sequence stay in the order of their rows
    repeated = np.zeros(len(order), bool)
    repeated[order[1:]] = np.all([column[order[1:]] == column[order[:-1]] for column in columns], axis=0)
    return repeated
