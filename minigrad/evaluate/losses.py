"""The losses of a model on text that it was not trained on, in bits per byte.

A loss per token depends on the length of the tokens. The sum of the losses divided by the bytes of the text does not:
it is the size to which the model could compress the text, and so compares with a compressor.

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
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.source import Spans
from minigrad.distributed.world import ALONE, World
from minigrad.evaluate.sequences import evaluation_batches
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
    completes a pair seen before in its sequence, `loss_others` the loss of all other tokens; NaN without such tokens.
    """

    loss: float
    bits_per_byte: float
    tokens: int
    loss_repeated: float
    loss_others: float

    @classmethod
    def of(cls, sums: Array) -> Score:
        """Return the score of five sums.

        They are the nats of tokens that complete no pair and of tokens that do, the counts of both, and all bytes.
        """
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
    """Evaluate a model on the spans of a text, dropout off.

    Every token is predicted once, from at least half a context where its span has that. With `limit`, about that many
    tokens are read, in sequences spread evenly over the text: a cheaper estimate. `byte_lengths` (V,) is the number of
    bytes of each token. `watch` may measure the batches as they are taken. The processes of a `world` share them.
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


def completes_a_pair(batch: Batch) -> npt.NDArray[np.bool_]:
    """Return for each row of a batch whether its token and its target stood side by side earlier in the same sequence.

    The earlier place counts also where it is only read. Shapes: (rows,).

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
