"""Bits per byte: how well a model predicts text it was not trained on, in a unit that does not depend on the tokenizer.

A loss per token depends on the length of the tokens. The sum of the losses divided by the bytes of the text does not:
it is the size to which the model could compress the text, so it can be compared with a compressor.

The same pass tells whether the model copies from its context: the loss on tokens that complete a pair seen before in
the sequence (`minigrad.data.repeated_pairs`), and on all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minigrad.autograd.graph import no_grad
from minigrad.constants import IGNORE
from minigrad.data.evaluation import evaluation_batches
from minigrad.data.repeated_pairs import completes_a_pair
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.source import Spans
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Array

BATCH_TOKENS = 4_096
"""The number of tokens that are evaluated at a time."""


class Predicted(NamedTuple):
    """A batch, and the loss in nats of each of its targets (rows,); 0 where the target does not count."""

    batch: Batch
    nats: Array


@dataclass(frozen=True)
class Score:
    """The result of an evaluation.

    `loss` is in nats per token, `tokens` the number of tokens predicted. `loss_repeated` is the loss per token that
    completes a pair seen before in its sequence, `loss_others` that of all others; NaN where there is none.
    """

    loss: float
    bits_per_byte: float
    tokens: int
    loss_repeated: float
    loss_others: float

    @classmethod
    def of(cls, sums: Array) -> Score:
        """Return the score of the sums that `sum_losses` returns."""
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
    byte_lengths: NDArray[Any],
    *,
    context: int,
    overlap: float = 0.5,
    limit: int | None = None,
    watch: Callable[[Iterable[Batch]], Iterable[Batch]] = iter,
) -> Score:
    """Evaluate the next-token predictions of `model` on the spans of a text, as `sum_losses` does."""
    return Score.of(sum_losses(model, spans, byte_lengths, context=context, overlap=overlap, limit=limit, watch=watch))


def sum_losses(
    model: LanguageModel,
    spans: Spans,
    byte_lengths: NDArray[Any],
    *,
    context: int,
    overlap: float = 0.5,
    limit: int | None = None,
    watch: Callable[[Iterable[Batch]], Iterable[Batch]] = iter,
) -> Array:
    """Sum the losses of the next-token predictions of `model` on the spans of a text, dropout off.

    Every token is predicted once, with at least `overlap * context` tokens before it where its span has them. With
    `limit`, only about that many tokens are read, in sequences spread evenly over the text: an estimate that costs
    less. `byte_lengths` (V,) is the number of bytes of each token. `watch` may measure the batches as they are taken,
    or take a part of them: the sums of several parts add up to those of the whole.
    Shapes: -> (5,) float64: the nats of tokens that complete no pair and of those that do, how many these are, and the
    bytes of all.
    """
    batches = evaluation_batches(spans, context=context, overlap=overlap, rows=BATCH_TOKENS, limit=limit)
    sums = np.zeros(5)
    for batch, losses in predictions(model, watch(batches)):
        counted = batch.targets != IGNORE
        repeated = completes_a_pair(batch)[counted].astype(int)
        sums[:2] += np.bincount(repeated, losses[counted], 2)
        sums[2:4] += np.bincount(repeated, minlength=2)
        sums[4] += byte_lengths[batch.targets[counted]].sum()
    return sums


def predictions(model: LanguageModel, batches: Iterable[Batch]) -> Iterator[Predicted]:
    """Yield each batch with the losses of its targets, dropout off."""
    training = model.training
    model.eval()
    try:
        for batch in batches:
            with no_grad():
                losses = model.losses(batch.tokens, batch.targets, layout=batch.layout).data
            yield Predicted(batch, losses)
    finally:
        model.train(training)
