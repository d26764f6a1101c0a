"""Attention of one query: what is not yet stored is not seen, and large scores are safe."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.decoding.attention import attend, store
from minigrad.kernels.decoding.program import ATTEND, STORE, Heads, Pattern, Share, Step, Texts

NONE = np.empty((0, 0), np.float32)
HEADS, ALONE = Heads(2, 1, 2, np.array([Pattern()], np.float64), NONE, NONE, False), Share(0, 1)


def texts(length: int) -> Texts:
    """Return one text of `length` stored tokens, the second in memory; the rest of the memory holds NaN."""
    keys, values = (np.full((1, 2, 5, 1, 2), np.nan, np.float32) for _ in range(2))
    keys[0, 1, :length] = values[0, 1, :length] = 1
    return Texts(
        np.zeros(1, np.int64),
        np.array([length], np.int64),
        np.ones(1, np.int64),
        keys,
        values,
        keys,
        values,
        np.zeros((0, 0, 0)),
    )


def test_the_first_token_sees_itself_alone() -> None:
    memory, stored = np.array([[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]], np.float32), texts(0)
    store(memory, Step(STORE, 4, 6, 2, 2), HEADS, stored, ALONE)
    assert stored.keys[0, 1, 0, 0].tolist() == [5, 6]
    assert stored.values[0, 1, 0, 0].tolist() == [7, 8]
    attend(memory, Step(ATTEND, 0, 8, 4, 4), HEADS, stored, ALONE)
    assert memory[0, 8:].tolist() == [7, 8, 7, 8]


def test_a_large_score_decides_without_overflow() -> None:
    memory, stored = np.array([[1e4, 0, -1e4, 0, 0, 0, 0, 0]], np.float32), texts(2)
    stored.keys[0, 1, :3, 0] = [[1, 0], [2, 0], [-1, 0]]
    stored.values[0, 1, :3, 0] = [[1, 1], [2, 2], [3, 3]]
    attend(memory, Step(ATTEND, 0, 4, 4, 4), HEADS, stored, ALONE)
    assert memory[0, 4:].tolist() == [2, 2, 3, 3]
