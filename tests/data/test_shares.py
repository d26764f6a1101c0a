"""The length of several texts as one: what it is for shares like their lengths, and for others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data.shares import length_as_one


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=6))
def test_shares_like_the_lengths_make_their_sum(lengths: list[int]) -> None:
    shares = [length / sum(lengths) for length in lengths]
    assert length_as_one(shares, lengths) == pytest.approx(sum(lengths))


@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(1, 10**9)), min_size=1, max_size=6))
def test_other_shares_make_it_shorter_and_never_shorter_than_the_shortest(texts: list[tuple[float, int]]) -> None:
    lengths = [length for _, length in texts]
    shares = [share / sum(share for share, _ in texts) for share, _ in texts]
    assert min(lengths) * (1 - 1e-9) <= length_as_one(shares, lengths) <= sum(lengths) * (1 + 1e-9)


def test_an_empty_text_counts_as_one_of_length_1() -> None:
    assert length_as_one([1.0], [0]) == 1
