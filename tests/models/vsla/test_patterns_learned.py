"""A learned pattern: the mixture of its candidates by their shares."""

from __future__ import annotations

import numpy as np

from minigrad import Tensor
from models.vsla.patterns import CANDIDATES, LearnedPattern

OFFSETS = np.array([0, 7, 19])
HEADS = 2


def drawn(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(0).normal(size=shape)


def pattern() -> LearnedPattern:
    learned = LearnedPattern(HEADS, window=3, block=2, top_k=2)
    learned.initialise(0, "float64")
    return learned


def test_the_result_is_the_mean_of_the_candidates_by_their_shares() -> None:
    learned, (q, k, v) = pattern(), (Tensor(each) for each in drawn(3, 19, HEADS, 4))
    learned.logits.data = drawn(HEADS * len(CANDIDATES))
    shares = learned.shares().data
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    wanted = sum(
        each.attend(q, k, v, OFFSETS).data * shares[:, number, None] for number, each in enumerate(learned.candidates)
    )
    np.testing.assert_allclose(learned.attend(q, k, v, OFFSETS).data, wanted, rtol=0, atol=1e-12)
    assert learned.keys_per_token(64) == sum(each.keys_per_token(64) for each in learned.candidates)
