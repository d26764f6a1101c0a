"""The next token: from the logits of the model to a distribution, and from the distribution to a draw."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from minigrad.errors import InputError
from minigrad.generation.settings import Sampling
from minigrad.random import generator
from minigrad.typing import Array

_FIRST_CANDIDATES = 64  # the most likely tokens that top-p looks at first; they nearly always reach p
_GROUP = 16  # values of which only the largest is looked at first


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
    count = _number_kept(weights, sampling)
    if count < len(weights):
        kept = _largest(values, count)  # by the logits: different ones may round to equal weights
        weights, chosen = np.zeros_like(weights), weights[kept]
        weights[kept] = chosen
    return weights / weights.sum()


def penalise(values: Array, sampling: Sampling, counts: Array) -> None:
    """Lower the logits of tokens that occurred, in place (repetition: Keskar et al. 2019, "CTRL", section 4.1)."""
    seen, penalty = np.flatnonzero(counts), sampling.repetition_penalty
    values[seen] = np.where(values[seen] > 0, values[seen] / penalty, values[seen] * penalty)
    values[seen] -= sampling.frequency_penalty * counts[seen]


def _number_kept(weights: Array, sampling: Sampling) -> int:
    """Return how many of the most likely tokens may be drawn, given weights (V,) of which the largest is 1."""
    kept = len(weights)
    if sampling.top_k is not None:
        kept = min(kept, sampling.top_k)
    if sampling.min_p is not None:
        kept = min(kept, int(np.count_nonzero(weights >= sampling.min_p)))
    if sampling.top_p is None or sampling.top_p == 1:
        return kept
    # Top-p (Holtzman et al. 2019, section 3.1): a token stays unless those before it already reach the share p.
    total = weights.sum() if kept == len(weights) else weights[_largest(weights, kept)].sum()
    enough, count = sampling.top_p * total, _FIRST_CANDIDATES
    while True:
        largest = -np.sort(-weights[candidates(weights, min(count, kept))])[:kept]
        before = np.cumsum(largest) - largest
        if count >= kept or before[-1] >= enough:
            return int(np.count_nonzero(before < enough))
        count *= 8


def _largest(values: Array, count: int) -> Array:
    """Return the indices of the `count` largest values, in no order; of equal values the first."""
    found = candidates(values, count)
    smallest = np.partition(values[found], len(found) - count)[len(found) - count]
    above, equal = found[values[found] > smallest], found[values[found] == smallest]
    return np.concatenate([above, equal[: count - len(above)]])


def most_likely(values: Array, count: int) -> Array:
    """Return the indices of the `count` largest values, largest first; of equal values the first.

    >>> most_likely(np.array([3.0, 9.0, 5.0, 9.0]), 3).tolist()
    [1, 3, 2]
    """
    found = candidates(values, count)
    return found[np.argsort(-values[found], kind="stable")[:count]]


def candidates(values: Array, count: int) -> Array:
    """Return, in rising order, the indices of all values from some bound on: the `count` largest, and not many more.

    The values are split into groups of 16. If `count` groups have a largest value of at least b, then at least `count`
    values are b or more. So b is looked for among the largest values of the groups, and only the candidates are sorted.

    >>> candidates(np.arange(1000.0), 3).tolist()
    [989, 990, 991, 992, 993, 994, 995, 996, 997, 998, 999]
    """
    groups = len(values) // _GROUP
    if not 0 < count <= groups:
        return np.arange(len(values))
    largest = values[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)
    bound = np.partition(largest, groups - count)[groups - count]
    return np.flatnonzero(values >= bound)


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
