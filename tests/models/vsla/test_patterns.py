"""Attention patterns: which tokens each of them shows, the cost that it states, and its cache."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from minigrad import Tensor, no_grad, ops
from minigrad.nn.layout import Layout
from minigrad.ops.attention import attention_formula
from minigrad.ops.softmax import softmax_formula
from models.vsla.operations.sparse_attention import sparse_attention_formula
from models.vsla.patterns import PATTERNS, AttentionPattern, PatternCache

Array = NDArray[Any]
WINDOW, BLOCK, TOP_K = 9, 4, 5

every_pattern = pytest.mark.parametrize("kind", PATTERNS)


def pattern(kind: str, entropy: float = 0.8) -> AttentionPattern:
    return AttentionPattern(kind, WINDOW, BLOCK, TOP_K, entropy)


def heads_of(lengths: list[int], heads: int = 4, groups: int = 2, size: int = 3) -> tuple[Array, Array, Array, Array]:
    rng, offsets = np.random.default_rng(0), np.cumsum([0, *lengths])
    q, k, v = (rng.normal(size=(offsets[-1], n, size)) for n in (heads, groups, groups))
    return q, k, v, offsets


def reference(kind: str, q: Array, k: Array, v: Array, offsets: Array, entropy: float = 0.8) -> Array:
    """Compute a pattern with all scores in memory: one query after the other, from what the pattern says it sees."""
    if kind == "full":
        return attention_formula(q, k, v, offsets=offsets)
    if kind == "sparse":
        return sparse_attention_formula(q, k, v, offsets=offsets, top_k=TOP_K)
    group, out = q.shape[1] // k.shape[1], np.zeros_like(q)
    k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)
    for first, last in itertools.pairwise(offsets):
        for row in range(first, last):
            near = max(first, row + 1 - WINDOW)
            far = [] if kind == "local" else list(range(first, first + (near - first) // BLOCK * BLOCK, BLOCK))
            near = near if kind == "local" else first + BLOCK * len(far)
            scores = np.einsum("hd,uhd->hu", q[row], k[near : row + 1]) / math.sqrt(q.shape[2])
            p = softmax_formula(scores)
            uncertain = row > near and (-(p * np.log(p)).sum(1)).mean() > entropy * math.log(row + 1 - near)
            if kind == "adaptive" and not uncertain:
                far = []
            keys, values = (
                np.concatenate([np.array([x[b : b + BLOCK].mean(axis=0) for b in far]).reshape(-1, *x.shape[1:]), seen])
                for x, seen in ((k, k[near : row + 1]), (v, v[near : row + 1]))
            )
            scores = np.einsum("hd,uhd->hu", q[row], keys) / math.sqrt(q.shape[2])
            scores[:, : len(far)] += math.log(BLOCK)
            out[row] = np.einsum("hu,uhd->hd", softmax_formula(scores), values)
    return out


@every_pattern
@pytest.mark.parametrize("lengths", [[1], [40], [3, 0, 37, 8], [9, 10, 13]])
def test_a_pattern_shows_what_it_says(kind: str, lengths: list[int]) -> None:
    q, k, v, offsets = heads_of(lengths)
    got = pattern(kind).attend(Tensor(q), Tensor(k), Tensor(v), offsets)
    np.testing.assert_allclose(got.data, reference(kind, q, k, v, offsets), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["full", "pyramid", "adaptive"])
def test_every_earlier_token_is_seen_once(kind: str) -> None:
    # Where all scores are equal, the output is the mean of all values, far ones included.
    _, k, v, offsets = heads_of([40], heads=2)
    q = np.zeros((40, 2, 3))
    got = pattern(kind).attend(Tensor(q), Tensor(k), Tensor(v), offsets).data
    np.testing.assert_allclose(got, np.cumsum(v, axis=0) / np.arange(1, 41)[:, None, None], rtol=1e-11)


@pytest.mark.parametrize("kind", ["local", "pyramid", "adaptive"])
def test_within_the_window_a_pattern_is_full_attention(kind: str) -> None:
    q, k, v, offsets = heads_of([WINDOW, 3])
    got = pattern(kind).attend(Tensor(q), Tensor(k), Tensor(v), offsets).data
    np.testing.assert_allclose(got, attention_formula(q, k, v, offsets=offsets), rtol=1e-10, atol=1e-12)


def test_adaptive_chooses_for_each_token() -> None:
    q, k, v, offsets = heads_of([60])
    q[30:] *= 100  # one key gets all the probability
    adaptive = pattern("adaptive")
    got = adaptive.attend(Tensor(q), Tensor(k), Tensor(v), offsets).data
    everything, nothing = (pattern("adaptive", share) for share in (0.0, 1.0))
    np.testing.assert_array_equal(got[30:], nothing.attend(Tensor(q), Tensor(k), Tensor(v), offsets).data[30:])
    pyramid = everything.attend(Tensor(q), Tensor(k), Tensor(v), offsets).data
    assert (got[20:30] == pyramid[20:30]).all(axis=(1, 2)).any()
    assert nothing.far_share == 0
    assert 0 < adaptive.far_share < everything.far_share == (60 - WINDOW - BLOCK + 1) / 60


@pytest.mark.parametrize("kind", ["local", "pyramid"])
@pytest.mark.parametrize("context", [5, 40, 300])
def test_the_keys_per_token_are_those_that_a_pattern_shows(kind: str, context: int) -> None:
    near = [max(0, t + 1 - WINDOW) // (1 if kind == "local" else BLOCK) for t in range(context)]
    shown = [t + 1 - (first if kind == "local" else first * (BLOCK - 1)) for t, first in enumerate(near)]
    # The mean position is taken as half the context, and the mean overhang of a block as half a block.
    assert pattern(kind).keys_per_token(context) == pytest.approx(np.mean(shown), abs=1.1)


def test_the_other_patterns_cost_more_than_what_they_show() -> None:
    full, sparse, pyramid, adaptive = (
        pattern(kind).keys_per_token(300) for kind in ("full", "sparse", "pyramid", "adaptive")
    )
    assert full == 150
    assert sparse == pytest.approx(75 + TOP_K / 2, abs=0.1)  # half of every key for the choice
    assert pyramid < adaptive < full  # the near keys twice, for their entropy


@every_pattern
@pytest.mark.parametrize("chunks", [[[1, 1]] * 23, [[5, 0], [1, 9], [11, 13], [6, 1]], [[23, 23]]])
def test_with_its_cache_chunks_give_what_the_whole_gives(kind: str, chunks: list[list[int]]) -> None:
    q, k, v, offsets = heads_of([23, 23])
    whole = reference(kind, q, k, v, offsets).reshape(2, 23, 4, 3)
    shown = pattern(kind)
    cache = PatternCache([pattern("full"), shown], 2, 30, 2, 3, np.float64)
    with no_grad():
        for counts in chunks:
            layout, stops = Layout.packed(counts), cache.lengths + counts
            parts = [slice(*part) for part in zip(cache.lengths, stops, strict=True)]
            rows, keys, values = (
                Tensor(np.concatenate([x.reshape(2, 23, *x.shape[1:])[n, part] for n, part in enumerate(parts)]))
                for x in (q, k, v)
            )
            stored_k, stored_v, ranges = cache.append(1, keys, values, layout.offsets)
            out = shown.attend(rows, stored_k, stored_v, layout.offsets, ranges, cache.far(1, ranges))
            wanted = np.concatenate([whole[n, part] for n, part in enumerate(parts)])
            np.testing.assert_allclose(out.data, wanted, rtol=1e-10, atol=1e-12)
            cache.advance(layout.lengths)


def test_the_cache_holds_the_means_of_layers_with_far_keys_only() -> None:
    patterns = [pattern(kind) for kind in PATTERNS]
    cache = PatternCache(patterns, batch_size=2, max_length=21, num_kv_heads=3, head_dim=5)
    assert set(cache.blocks) == {3, 4}
    assert cache.far_keys.shape == cache.far_values.shape == (len(patterns), 2, 21 // BLOCK, 3, 5)
    assert cache.num_bytes == 4 * 2 * 2 * 3 * 5 * len(patterns) * (21 + 21 // BLOCK)
    assert PatternCache(patterns[:3], 2, 21, 3, 5).far_keys.size == 0
    assert cache.far(0, np.zeros((2, 2), np.int64)) is None


def test_far_keys_get_their_part_of_the_gradient() -> None:
    q, k, v, offsets = heads_of([40], heads=2)
    values = Tensor(v, requires_grad=True)
    out = pattern("pyramid").attend(Tensor(np.zeros_like(q)), Tensor(k), values, offsets)
    ops.sum(out[39]).backward()
    np.testing.assert_allclose(values.grad, np.full(v.shape, 1 / 40), rtol=1e-11)
