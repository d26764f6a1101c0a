"""The next token: from the logits of the model to a distribution, and from the distribution to a draw."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from minigrad.errors import InputError
from minigrad.generation.settings import Sampling
from minigrad.random import generator
from minigrad.typing import Array

_FIRST_CANDIDATES = 64  # the most likely tokens that top-p looks at first; they nearly always reach p


def distribution(
    logits: Array, sampling: Sampling, *, counts: Array | None = None, forbidden: Array | None = None
) -> Array:
    """Return the probabilities (V,) with which to draw the next token, given the logits (V,) of the model.

    In this order: penalties by how often each token occurred, `counts` (V,); `forbidden` tokens (V,) get probability
    0; the temperature; min-p, top-k and top-p, which keep the most likely tokens.
    Raises InputError if the logits are not finite.

    >>> distribution(np.log([0.5, 0.3, 0.2]), Sampling(temperature=1, top_p=0.6)).round(3).tolist()
    [0.625, 0.375, 0.0]
    """
    values = logits.astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError("the model's logits are not finite: its weights are damaged, or it diverged in training")
    if counts is not None and sampling.penalises:
        penalise(values, sampling, counts)
    if forbidden is not None:
        values[forbidden] = -np.inf
    if sampling.temperature == 0:
        return np.eye(1, len(values), int(values.argmax()))[0]
    with np.errstate(over="ignore"):  # a tiny temperature gives all but the most likely exp(-inf) = 0
        values = (values - values.max()) / sampling.temperature
    weights = np.exp(values)  # 1 for the most likely token
    if sampling.min_p is not None:
        weights[weights < sampling.min_p] = 0
    if sampling.top_k is not None and sampling.top_k < len(weights):
        weights = _only(weights, most_likely(values, sampling.top_k))
    if sampling.top_p is not None and sampling.top_p < 1:
        weights = _only(weights, _nucleus(values, weights, sampling.top_p))
    return weights / weights.sum()


def penalise(values: Array, sampling: Sampling, counts: Array) -> None:
    """Lower the logits of tokens that occurred, in place (repetition: Keskar et al. 2019, "CTRL", section 4.1)."""
    seen, penalty = np.flatnonzero(counts), sampling.repetition_penalty
    values[seen] = np.where(values[seen] > 0, values[seen] / penalty, values[seen] * penalty)
    values[seen] -= sampling.frequency_penalty * counts[seen]


def most_likely(values: Array, count: int) -> Array:
    """Return the indices of the `count` largest values, largest first; of equal values the first.

    Only the largest are sorted: a selection finds the smallest of them in linear time.

    >>> most_likely(np.array([3.0, 9.0, 5.0, 9.0]), 3).tolist()
    [1, 3, 2]
    """
    candidates = np.arange(len(values))
    if count < len(values):
        place = len(values) - max(count, 1)
        candidates = np.flatnonzero(values >= np.partition(values, place)[place])
    order = np.argsort(-values[candidates], kind="stable")  # different logits may round to equal weights
    return candidates[order[:count]]


def _nucleus(values: Array, weights: Array, p: float) -> Array:
    """Return the most likely tokens: each, unless those before it already reach the share p (Holtzman et al. 2019)."""
    count, enough = _FIRST_CANDIDATES, p * weights.sum()
    while True:
        candidates = most_likely(values, count)
        before = np.cumsum(weights[candidates]) - weights[candidates]
        if count >= len(values) or before[-1] >= enough:
            return candidates[before < enough]
        count *= 8


def _only(weights: Array, kept: Array) -> Array:
    """Return the weights with all but those of `kept` set to 0."""
    result = np.zeros_like(weights)
    result[kept] = weights[kept]
    return result


def draw(probabilities: Array, uniform: float) -> int:
    """Return the token at the share `uniform`, from 0 to 1, of the cumulative distribution.

    >>> [draw(np.array([0.5, 0.0, 0.5]), uniform) for uniform in (0.0, 0.4, 0.5, 0.99)]
    [0, 0, 2, 2]
    """
    sums = np.cumsum(probabilities)
    token = int(np.searchsorted(sums, uniform * sums[-1], side="right"))
    return min(token, int(np.searchsorted(sums, sums[-1])))  # uniform * sums[-1] may round to sums[-1]


def uniform(seed: int, purpose: str, sample: int, position: int) -> float:
    """Return the random number in [0, 1) of one position of one sample: it depends on nothing else."""
    return float(generator(seed, purpose, step=position, index=sample).random())


def log_probabilities(logits: Array) -> Array:
    """Return the logarithms (V,) of the model's own probabilities: of the softmax of the logits (V,).

    >>> log_probabilities(np.array([0.0, 0.0])).tolist() == [-np.log(2)] * 2
    True
    """
    values = logits.astype(np.float64) - logits.max()
    return values - np.log(np.exp(values).sum())


def as_mask(ids: Iterable[int], vocab_size: int) -> Array:
    """Return a mask (V,) that is True at these ids."""
    mask = np.zeros(vocab_size, bool)
    mask[list(ids)] = True
    return mask
