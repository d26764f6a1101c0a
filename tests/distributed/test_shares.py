"""Shares cover a range without overlap, are about equal, and cut nothing that must stay whole."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.distributed.shares import cuts_between, even_cuts, overlap

counts = st.integers(1, 9)


@given(st.integers(0, 50), st.integers(0, 100), counts)
def test_even_shares_differ_by_at_most_one_element(start: int, size: int, count: int) -> None:
    cuts = even_cuts(slice(start, start + size), count)
    sizes = [stop - start for start, stop in itertools.pairwise(cuts)]
    assert (cuts[0], cuts[-1], len(sizes)) == (start, start + size, count)
    assert 0 <= min(sizes) <= max(sizes) <= min(sizes) + 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), counts)
def test_shares_of_wholes_end_at_borders_and_cost_at_most_half_a_whole_more_on_each_side(
    sizes: list[int], count: int
) -> None:
    borders = [7, *itertools.accumulate(sizes, initial=7)][1:]
    places = [slice(start, stop) for start, stop in itertools.pairwise(borders)]
    cuts = cuts_between(places, [float(size) for size in sizes], count)
    assert (cuts[0], cuts[-1], len(cuts)) == (7, 7 + sum(sizes), count + 1)
    assert cuts == sorted(cuts)
    assert set(cuts) <= set(borders)
    assert max(stop - start for start, stop in itertools.pairwise(cuts)) <= sum(sizes) / count + max(sizes)


@pytest.mark.parametrize(
    ("one", "other"), [((0, 5), (3, 9)), ((3, 9), (0, 5)), ((0, 2), (2, 3)), ((4, 6), (0, 9)), ((4, 6), (0, 2))]
)
def test_the_overlap_holds_what_both_ranges_hold(one: tuple[int, int], other: tuple[int, int]) -> None:
    found = overlap(slice(*one), slice(*other))
    assert found.start <= found.stop
    assert set(range(found.start, found.stop)) == set(range(*one)) & set(range(*other))
