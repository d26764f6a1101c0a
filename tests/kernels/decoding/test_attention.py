"""Attention of one query: what is not yet stored is not seen, and large scores are safe."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.decoding.attention import attend, join, store
from minigrad.kernels.decoding.kept import Kept
from minigrad.kernels.decoding.program import ATTEND, JOIN, STORE, Heads, Pattern, Share, Step, Texts
from minigrad.typing import Array
from tests.kernels.decoding.kept_twins import floats_of

NONE, SUMS = np.empty((0, 0), np.float32), np.zeros((0, 0, 0))
HEADS, ALONE = Heads(2, 1, 2, np.array([Pattern()], np.float64), NONE, NONE, False), Share(0, 1)


def texts(length: int) -> Texts:
    """Return one text of `length` stored tokens, the second in memory; the rest of the memory holds NaN."""
    keys, values = (np.full((1, 2, 5, 1, 2), np.nan, np.float32) for _ in range(2))
    keys[0, 1, :length] = values[0, 1, :length] = 1
    return Texts(
        np.zeros(1, np.int64),
        np.array([length], np.int64),
        np.ones(1, np.int64),
        *map(Kept.of, (keys, values, keys, values)),
        SUMS,
    )


def attended(memory: Array, stored: Texts, heads: Heads = HEADS, threads: int = 1) -> Array:
    """Return the attention of the queries with which memory (1, n) begins."""
    width = heads.num_heads * heads.size
    scratch = np.concatenate([memory, np.full((1, 32 * width), np.nan, memory.dtype)], axis=1)
    for code, kernel, source, target in (
        (ATTEND, attend, 0, memory.shape[1] + width),
        (JOIN, join, memory.shape[1] + width, memory.shape[1]),
    ):
        for number in range(threads):
            kernel(scratch, Step(code, source, target, width, width), heads, stored, Share(number, threads))
    return scratch[0, memory.shape[1] : memory.shape[1] + width]


def test_the_first_token_sees_itself_alone() -> None:
    memory, stored = np.array([[1, 2, 3, 4, 5, 6, 7, 8]], np.float32), texts(0)
    store(memory, Step(STORE, 4, 6, 2, 2), HEADS, stored, ALONE)
    assert floats_of(stored.keys, np.float32)[1, 0, 0].tolist() == [5, 6]
    assert floats_of(stored.values, np.float32)[1, 0, 0].tolist() == [7, 8]
    assert attended(memory, stored).tolist() == [7, 8, 7, 8]


def test_a_large_score_decides_without_overflow() -> None:
    memory, stored = np.array([[1e4, 0, -1e4, 0]], np.float32), texts(2)
    floats_of(stored.keys, np.float32)[1, :3, 0] = [[1, 0], [2, 0], [-1, 0]]
    floats_of(stored.values, np.float32)[1, :3, 0] = [[1, 1], [2, 2], [3, 3]]
    assert attended(memory, stored).tolist() == [2, 2, 3, 3]


@pytest.mark.parametrize("length", [31, 32, 100, 511, 600])
def test_the_parts_of_a_long_text_are_one_attention_whatever_the_threads(length: int) -> None:
    rng, heads = np.random.default_rng(length), HEADS._replace(num_heads=4, kv_heads=2, size=8)
    keys, values = (rng.normal(size=(1, 1, length + 1, 2, 8)).astype(np.float32) for _ in range(2))
    keys[0, 0, length // 2] *= 30  # one part has far larger scores than the others
    numbers, far = np.array([length]), keys[:, :, :0]
    stored = Texts(numbers, numbers, np.zeros(1, np.int64), *map(Kept.of, (keys, values, far, far)), SUMS)
    memory = rng.normal(size=(1, 32)).astype(np.float32)
    found = attended(memory, stored, heads)
    of_heads = keys[0, 0].repeat(2, axis=1), values[0, 0].repeat(2, axis=1)
    scores = np.einsum("hd,nhd->hn", memory.reshape(4, 8), of_heads[0], dtype=np.float64) / np.sqrt(8)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = np.einsum("hn,nhd->hd", weights / weights.sum(axis=1, keepdims=True), of_heads[1]).reshape(-1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    for threads in (2, 3, 20):
        np.testing.assert_array_equal(attended(memory, stored, heads, threads), found)
