"""What a model expected at each place of a text, and how sure it was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minigrad.generation.sampling import log_probabilities, most_likely
from minigrad.typing import Array


class Prediction(NamedTuple):
    """The distribution of the token at one place, before temperature and limits, and the token that stands there."""

    token: int
    probability: float  # of that token
    rank: int  # 1 if it was the most likely one
    entropy: float  # of the distribution, in bits: 0 if only one token is possible, log2(V) if all are equally likely
    likely: tuple[tuple[int, float], ...]  # the most likely tokens with their probabilities, by rank

    @property
    def surprise(self) -> float:
        """The bits that the token would cost in a perfect compression: -log2 of its probability."""
        return 0.0 - math.log2(self.probability) if self.probability else math.inf


def predictions(logits: Array, tokens: Sequence[int], count: int = 5) -> list[Prediction]:
    """Compare the model's distribution at each place with the token there; name the `count` most likely tokens.

    Shapes: logits (n, V), row i being the model's for the token i; n tokens.

    >>> found, = predictions(np.log([[0.25, 0.5, 0.25]]), [0], count=1)
    >>> found.rank, round(found.probability, 3), round(found.entropy, 3), round(found.surprise, 3)
    (2, 0.25, 1.5, 2.0)
    """
    return [_prediction(log_probabilities(row), int(token), count) for row, token in zip(logits, tokens, strict=True)]


def _prediction(known: Array, token: int, count: int) -> Prediction:
    p = np.exp(known)
    entropy = float(-(p[p > 0] * known[p > 0]).sum() / math.log(2))
    # Of equally likely tokens the first ranks higher, as in `most_likely`.
    rank = 1 + int((known > known[token]).sum() + (known[:token] == known[token]).sum())
    likely = tuple((int(each), float(p[each])) for each in most_likely(known, count))
    return Prediction(token, float(p[token]), rank, max(0.0, entropy), likely)
