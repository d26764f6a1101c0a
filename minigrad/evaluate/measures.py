"""The loss of each token of a text, and its sums: of the whole text, by position, by document.

The loss of a text is the sum over its tokens, in nats. Divided by the tokens it is the loss per token, whose
exponential is the perplexity per token: it says among how many equally likely tokens the model would be as uncertain.
Both depend on how long the tokens are. Divided by the bytes or the words of the text, the same sum compares models with
different tokenizers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minigrad.constants import IGNORE
from minigrad.data.tokens.source import Spans
from minigrad.evaluate.losses import BATCH_TOKENS, bits_per_byte, completes_a_pair, predictions
from minigrad.evaluate.sequences import evaluation_batches
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Array


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """The loss of every token of a text but the first, in the order of the text. Shapes: all (tokens,).

    `nats` are the losses, `num_bytes` the bytes of each token, `read` the number of tokens that it was predicted from,
    `repeated` whether it completes a pair seen before among these, `document` the number of its document.
    """

    nats: Array
    num_bytes: Array
    read: Array
    repeated: Array
    document: Array


@dataclass(frozen=True)
class LossSum:
    """A part of a text, such as a document: its tokens, its bytes, and the sum of the losses of its tokens in nats."""

    name: str
    tokens: int
    num_bytes: int
    nats: float

    @property
    def loss(self) -> float:
        """The loss in nats per token; NaN if there is no token."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def bits_per_byte(self) -> float:
        """The loss in bits per byte; NaN if there is no byte."""
        return bits_per_byte(self.nats, self.num_bytes) if self.num_bytes else math.nan


@dataclass(frozen=True)
class Words:
    """The number of words of a text, the pieces between white space, and of its lines."""

    words: int
    lines: int

    @classmethod
    def of(cls, documents: Sequence[str]) -> Words:
        """Count the words and lines of documents.

        >>> Words.of(["to be\\nor not\\n\\n", "to be"])
        Words(words=6, lines=4)
        """
        return cls(
            sum(len(text.split()) for text in documents),
            sum(text.count("\n") + (not text.endswith("\n")) for text in documents),
        )


def perplexity(nats: float, count: int) -> float:
    """Return exp(nats / count); infinity if that is too large for a number, and without anything counted.

    >>> round(perplexity(math.log(10) * 3, 3))
    10
    """
    try:
        return math.exp(nats / count)
    except (OverflowError, ZeroDivisionError):
        return math.inf


def token_losses(
    model: LanguageModel, spans: Spans, byte_lengths: Array, *, context: int, overlap: float
) -> TokenLosses:
    """Evaluate `model` on the spans of a text, dropout off; every token but the first is predicted once.

    `byte_lengths` (V,) is the number of bytes of each token. The first token of the row is the one that begins every
    document.
    """
    batches = evaluation_batches(spans, context=context, overlap=overlap, rows=BATCH_TOKENS)
    columns: list[tuple[Array, ...]] = []
    for batch, nats in predictions(model, batches):
        counted = batch.targets != IGNORE
        read = batch.layout.positions + 1
        columns.append((nats[counted], read[counted], completes_a_pair(batch)[counted]))
    losses, read, repeated = (np.concatenate(each) for each in zip(*columns, strict=True))
    row = np.asarray(spans.row).astype(np.int64)
    document = np.cumsum(row[:-1] == row[0]) - 1  # the end of a document belongs to it
    return TokenLosses(losses.astype(np.float64), byte_lengths[row[1:]], read, repeated, document)


def whole(losses: TokenLosses) -> LossSum:
    """Return all of the text."""
    return LossSum("text", len(losses.nats), int(losses.num_bytes.sum()), float(losses.nats.sum()))


def by_repetition(losses: TokenLosses) -> tuple[LossSum, LossSum]:
    """Return the tokens that complete a pair seen before, and all others."""
    others, repeated = _parts(losses, losses.repeated.astype(int), ["others", "repeated pairs"])
    return repeated, others


def by_position(losses: TokenLosses) -> list[LossSum]:
    """Return the tokens by the number of tokens that they were predicted from: 1, 2, 3 to 4, 5 to 8, and so on."""
    _, group = np.frexp(losses.read - 1)
    most = int(losses.read.max())
    ends = [min(1 << number, most) for number in range(int(group.max()) + 1)]
    starts = [1, *(end + 1 for end in ends)]
    names = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in zip(starts, ends, strict=False)]
    return [part for part in _parts(losses, group, names) if part.tokens]


def by_document(losses: TokenLosses, documents: Sequence[str]) -> list[LossSum]:
    """Return the documents, named by their first lines."""
    names = [next((line.strip() for line in text.split("\n") if line.strip()), "") for text in documents]
    return _parts(losses, losses.document, names)


def _parts(losses: TokenLosses, group: Array, names: Sequence[str]) -> list[LossSum]:
    count = len(names)
    tokens, nats = np.bincount(group, minlength=count), np.bincount(group, losses.nats, count)
    num_bytes = np.bincount(group, losses.num_bytes, count)
    rows = zip(names, tokens, num_bytes, nats, strict=True)
    return [LossSum(name, int(tokens), int(size), float(nats)) for name, tokens, size, nats in rows]
