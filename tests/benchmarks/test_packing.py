"""The comparison of packed, padded and bucketed batches is one of the same sequences."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.packing import bucketed, compare, packed, padded
from minigrad.constants import IGNORE


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 5))
def test_every_way_has_every_sequence_once(lengths: list[int], count: int) -> None:
    ways = {"padded": padded(lengths, count), "buckets": bucketed(lengths, 60), "packed": packed(lengths, 60)}
    for name, batches in ways.items():
        found = []
        for batch in batches:
            real = np.add.reduceat(batch.targets != IGNORE, batch.layout.offsets[:-1])
            found += real.tolist()
            if name != "packed":
                assert len(set(batch.layout.lengths)) == 1
                assert batch.layout.lengths[0] == real.max()
        assert sorted(found) == sorted(lengths)
    assert all(len(batch.tokens) <= 60 for name in ("buckets", "packed") for batch in ways[name])


def test_buckets_hold_sequences_of_similar_lengths() -> None:
    lengths = [batch.layout.lengths.tolist() for batch in bucketed([2, 9, 3, 8, 3, 10, 9], 20)]
    assert lengths == [[2], [3, 3], [8], [9, 9], [10]]


def test_the_ways_are_compared_by_real_tokens() -> None:
    lengths = [3, 12]
    ways = {"padded": padded(lengths, 2), "packed": packed(lengths, 15)}
    fast, small = compare("nano", ways, rounds=1), compare("nano", ways, rounds=0)
    assert [(each["tokens"], each["rows"]) for each in fast.values()] == [(15, 24), (15, 15)]
    assert min(each["tokens_per_second"] for each in fast.values()) > 0
    assert 0 < small["packed"]["bytes"] < small["padded"]["bytes"]
