"""The rule that an arm must obey: no position sees a later token or another sequence, in training or out of it."""

from __future__ import annotations

import math

import numpy as np

import models
from minigrad.autograd.graph import no_grad
from minigrad.nn.language_model import LanguageModel
from minigrad.random import generator

ALLOWED = 1e-9
"""The largest change that rounding may make, in float64, relative to the largest logit."""

_SEQUENCES = 6


def leak(model: LanguageModel, length: int, *, trained: bool = False) -> float:
    """Return how much later tokens, or those of other sequences, change logits, relative to the largest logit.

    It is infinite if a logit is not finite.

    A copy of the model in float64 without dropout reads sequences of this length, as far as its context reaches, and
    again with every token from some place on exchanged, or with all tokens of every second sequence. It has the weights
    of the model if that is `trained`, and otherwise new ones. Half of the sequences have three different tokens, so
    that equal neighbours stand side by side and a model that merges them does. The length should be that of training
    and judging: in a shorter sequence no window is full, and a leak that begins later is not found.
    """
    copy = models.variant(model, dropout=0.0)
    copy.initialise(0, "float64")
    if trained:
        copy.load_state_dict(model.state_dict())
    draw, length = generator(0, "causality"), min(length, model.config.context_length)
    kinds = np.repeat([min(3, model.config.vocab_size), model.config.vocab_size], _SEQUENCES // 2)[:, None]
    ids = draw.integers(kinds, size=(_SEQUENCES, length))
    edges = [1 << power for power in range(4, (length - 1).bit_length())]  # where blocks and windows usually end
    found = 0.0
    with no_grad():
        for training in (True, False):
            copy.train(training)
            logits = copy(ids).data
            places = sorted({1, length // 3, length // 2, length - 1, *edges} & {*range(1, length)})
            exchanged = [(np.s_[:, place:], np.s_[:, :place]) for place in places]
            for changed, kept in [*exchanged, (np.s_[::2], np.s_[1::2]), (np.s_[1::2], np.s_[::2])]:
                other = ids.copy()
                other[changed] = ((ids + draw.integers(1, kinds, size=ids.shape)) % kinds)[changed]
                change = float(np.abs(copy(other).data[kept] - logits[kept]).max())
                if not math.isfinite(change):
                    return math.inf
                found = max(found, change / max(1.0, float(np.abs(logits).max())))
    return found
