"""Bits per byte: how well a model predicts text it was not trained on, in a unit that does not depend on the tokenizer.

A loss per token depends on the length of the tokens. The sum of the losses divided by the bytes of the text does not:
it is the size to which the model could compress the text, so it can be compared with a compressor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from minigrad.autograd.graph import no_grad
from minigrad.constants import IGNORE
from minigrad.data.batches import Batch
from minigrad.data.evaluation import Spans, evaluation_batches
from minigrad.nn.language_model import LanguageModel

BATCH_TOKENS = 4_096
"""The number of tokens that are evaluated at a time."""


@dataclass(frozen=True)
class Score:
    """The result of an evaluation: `loss` in nats per token, `bits_per_byte`, and the number of tokens predicted."""

    loss: float
    bits_per_byte: float
    tokens: int


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
    """Evaluate the next-token predictions of `model` on the spans of a text, dropout off.

    Every token is predicted once, with at least `overlap * context` tokens before it where its span has them. With
    `limit`, only about that many tokens are read, in sequences spread evenly over the text: an estimate that costs
    less. `byte_lengths` (V,) is the number of bytes of each token. `watch` may measure the batches as they are taken.
    """
    batches = evaluation_batches(spans, context=context, overlap=overlap, rows=BATCH_TOKENS, limit=limit)
    nats, count, num_bytes = 0.0, 0, 0
    training = model.training
    model.eval()
    try:
        for batch in watch(batches):
            targets = batch.targets[batch.targets != IGNORE]
            with no_grad():
                nats += model.loss(batch.tokens, batch.targets, layout=batch.layout).item() * len(targets)
            count += len(targets)
            num_bytes += int(byte_lengths[targets].sum())
    finally:
        model.train(training)
    return Score(nats / max(count, 1), bits_per_byte(nats, num_bytes), count)
