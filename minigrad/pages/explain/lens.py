"""The logit lens: what a model would have answered, had it ended after an earlier layer.

Every layer adds to the residual stream. The last norm and the head, which turn it into logits, can be applied to the
stream after any layer (nostalgebraist 2020, "interpreting GPT: the logit lens"). After the last layer that gives the
logits of the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.quantised import linear
from minigrad.nn.trace import Trace
from minigrad.typing import Array

_ROWS_AT_ONCE = 64  # so that the logits of a large vocabulary take little memory


class Lens(NamedTuple):
    """The most likely next token after each layer and each token, and its probability.

    Shapes: tokens and probabilities (layers + 1, n); the first row is that of the embedding, before all layers.
    """

    tokens: Array
    probabilities: Array


def logit_lens(model: LanguageModel, trace: Trace, first: int = 0) -> Lens:
    """Apply the last norm and the head of a model after each layer, for the tokens from place `first` on."""
    best, chance = [], []
    for stream in trace.stream:
        parts = [_best(logits) for logits in _parts(model, trace, stream[first:])]
        best.append(np.concatenate([part[0] for part in parts]))
        chance.append(np.concatenate([part[1] for part in parts]))
    return Lens(np.array(best), np.array(chance))


def last_logits(model: LanguageModel, trace: Trace, first: int = 0) -> Array:
    """Return the logits (n, V) that the model computed after each token from place `first` on."""
    return np.concatenate(list(_parts(model, trace, trace.stream[-1][first:])))


def _parts(model: LanguageModel, trace: Trace, stream: Array) -> Iterator[Array]:
    """Yield the logits of some rows of the stream at a time; at least once."""
    for start in range(0, max(len(stream), 1), _ROWS_AT_ONCE):
        with no_grad():
            rows = Tensor(stream[start : start + _ROWS_AT_ONCE])
            for module in trace.after:
                rows = module(rows)
            yield linear(rows, model.head()).data


def _best(logits: Array) -> tuple[Array, Array]:
    """Return the most likely token of each row of logits (n, V), and its probability: its softmax."""
    best = logits.argmax(axis=1)
    above = logits.max(axis=1, keepdims=True, initial=-np.inf)
    return best, 1 / np.exp(logits.astype(np.float64) - above).sum(axis=1)
