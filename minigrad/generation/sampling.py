"""The next token: from the logits of the model to a distribution, and from the distribution to a draw."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from minigrad.errors import InputError
from minigrad.generation.settings import Sampling
from minigrad.kernels.rowwise.selection import draw_index, first_uniform, select_largest
from minigrad.random import philox_key
from minigrad.typing import Array

_GROUP = 16  # values to a group; `candidates` looks at the largest of each first


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
    check_logits(logits)
    values = logits.astype(np.float64)
    if counts is not None and sampling.penalises:
        penalise(values, sampling, counts)
    if forbidden is not None:
        np.copyto(values, -np.inf, where=forbidden)
    probabilities = np.zeros_like(values)
    if sampling.temperature == 0:
        probabilities[values.argmax()] = 1
        return probabilities
    with np.errstate(over="ignore"):  # a tiny temperature gives all but the most likely exp(-inf) = 0
        values -= values.max()
        values /= sampling.temperature
    weights = np.exp(values)  # 1 for the most likely token
    kept = _kept(values, weights, sampling)
    probabilities[kept] = weights[kept]
    probabilities /= probabilities.sum()
    return probabilities


def penalise(values: Array, sampling: Sampling, counts: Array) -> None:
    """Lower the logits of tokens that occurred, in place (repetition: Keskar et al. 2019, "CTRL", section 4.1)."""
    seen, penalty = np.flatnonzero(counts), sampling.repetition_penalty
    values[seen] = np.where(values[seen] > 0, values[seen] / penalty, values[seen] * penalty)
    values[seen] -= sampling.frequency_penalty * counts[seen] + sampling.presence_penalty


def _kept(values: Array, weights: Array, sampling: Sampling) -> Array | slice:
    """Return which tokens may be drawn, given their logits (V,) and weights (V,) up to 1.

    Logits decide, because different logits may round to equal weights.
    """
    share = 1.0 if sampling.top_p is None else sampling.top_p
    if sampling.top_k is not None or sampling.min_p is not None:
        found = np.arange(len(values)) if sampling.top_k is None else candidates(values, sampling.top_k)
        if sampling.min_p is not None:
            found = found[weights[found] >= sampling.min_p]
        if sampling.top_k is not None:
            found = found[: select_largest(values, np.ones_like(weights), found, sampling.top_k)]
        total = weights[found].sum()
    elif share < 1:
        # Tokens less likely than (1 - p) / V have less than 1 - p together, so the others reach p without them.
        total = weights.sum()
        found = np.flatnonzero(weights >= (1 - share) * total / len(weights))
    else:
        return slice(None)
    # Top-p (Holtzman et al. 2019, section 3.1): a token stays unless those before it already reach the share p.
    return found if share == 1 else found[: select_largest(values, weights, found, share * total)]


def most_likely(values: Array, count: int) -> Array:
    """Return the indices of the `count` largest values, largest first; of equal values the first.

    >>> most_likely(np.array([3.0, 9.0, 5.0, 9.0]), 3).tolist()
    [1, 3, 2]
    """
    found = candidates(values, count)
    return found[np.argsort(-values[found], kind="stable")[:count]]


def candidates(values: Array, count: int) -> Array:
    """Return, in rising order, the indices of the `count` largest values and a few more.

    The values are split into groups of 16. If the largest values of `count` groups are at least b, then at least
    `count` values are. So b is chosen among the largest values of groups, and only few values need sorting.

    >>> candidates(np.arange(1000.0), 3).tolist()
    [989, 990, 991, 992, 993, 994, 995, 996, 997, 998, 999]
    """
    groups = len(values) // _GROUP
    if not 0 < count <= groups:
        return np.arange(len(values) if count else 0)
    largest = values[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)
    bound = np.partition(largest, groups - count)[groups - count]
    return np.flatnonzero(values >= bound)


def draw(probabilities: Array, uniform: float) -> int:
    """Return the token at the share `uniform`, from 0 to 1, of the cumulative distribution.

    >>> [draw(np.array([0.5, 0.0, 0.5]), uniform) for uniform in (0.0, 0.4, 0.5, 0.99)]
    [0, 0, 2, 2]
    """
    return int(draw_index(probabilities, uniform))


def uniform(seed: int, purpose: str, sample: int, position: int) -> float:
    """Return the random number in [0, 1) of one position of one sample; it depends on nothing else."""
    return float(first_uniform(np.uint64(philox_key(seed, purpose)), np.uint64(position), np.uint64(sample)))


def check_logits(logits: Array) -> None:
    """Raise InputError if a logit is not finite."""
    if not (np.isfinite(logits.max()) and np.isfinite(logits.min())):
        raise InputError("the model's logits are not finite: its weights are damaged, or it diverged in training")


def log_probabilities(logits: Array) -> Array:
    """Return the log-softmax (V,) of the logits (V,).

    >>> log_probabilities(np.array([0.0, 0.0])).tolist() == [-np.log(2)] * 2
    True
    """
    values = logits.astype(np.float64) - logits.max()
    return values - np.log(np.exp(values).sum())


def as_mask(ids: Iterable[int], vocab_size: int) -> Array:
    """Return a mask (V,) that is True at these ids; ids outside the vocabulary are ignored."""
    mask = np.zeros(vocab_size, bool)
    mask[[token for token in ids if 0 <= token < vocab_size]] = True
    return mask
