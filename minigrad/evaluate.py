"""Bits per byte: how well a model predicts text it has never seen, in a unit that any tokenizer can be compared in.

A loss per token depends on how long the tokens are. The same loss divided by the bytes those tokens stand for does not:
it is the size to which the model could compress the text, so it can be put beside what a compressor needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad import data
from minigrad.graph import no_grad
from minigrad.language_model import LanguageModel
from minigrad.ops.cross_entropy import IGNORE

_BATCH_TOKENS = 4_096


@dataclass(frozen=True)
class Score:
    """How a model did on a text: `loss` in nats per token, `bits_per_byte`, and the number of tokens scored."""

    loss: float
    bits_per_byte: float
    tokens: int


def bits_per_byte(nats: float, num_bytes: float) -> float:
    """Turn a sum of losses in nats into bits per byte.

    >>> bits_per_byte(math.log(2) * 8, 4)
    2.0
    """
    return nats / math.log(2) / max(num_bytes, 1)


def evaluate(
    model: LanguageModel,
    tokens: data.TokenFile,
    byte_lengths: NDArray[Any],
    *,
    context: int,
    overlap: float = 0.5,
    limit: int | None = None,
) -> Score:
    """Score the next-token predictions of `model` on a token file, dropout off.

    Every token is predicted once, with at least `overlap * context` tokens before it where there are so many. With
    `limit`, only about that many tokens are read, in windows spread evenly over the text: an estimate that costs less.
    `byte_lengths` (V,) is the number of bytes each token stands for.
    """
    batch_size = max(1, _BATCH_TOKENS // context)
    windows = data.evaluation_windows(
        tokens,
        context=context,
        overlap=overlap,
        batch_size=batch_size,
        max_windows=None if limit is None else max(1, limit // context),
    )
    nats, count, num_bytes = 0.0, 0, 0
    training = model.training
    model.eval()
    try:
        for inputs, targets in windows:
            real = targets != IGNORE
            with no_grad():
                nats += model.loss(inputs, targets).item() * int(real.sum())
            count += int(real.sum())
            num_bytes += int(byte_lengths[targets[real]].sum())
    finally:
        model.train(training)
    return Score(nats / max(count, 1), bits_per_byte(nats, num_bytes), count)


def token_byte_lengths(tokenizer: Any, vocab_size: int) -> NDArray[np.int64]:
    """Return how many bytes of text each token id stands for (vocab_size,); 0 for special and unused ids."""
    specials = set(tokenizer.specials.values())
    lengths = np.zeros(vocab_size, np.int64)
    for token in tokenizer.ids:
        if token < vocab_size and token not in specials:
            lengths[token] = len(tokenizer.decode_bytes([token]))
    return lengths
