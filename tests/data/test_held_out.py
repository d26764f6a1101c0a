"""Documents are held out by their hashes, as many as are needed and no more."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data import held_out
from minigrad.data.held_out import SHARE, hold_out
from minigrad.data.selection import Selection


@given(st.lists(st.integers(0, 200), min_size=2, max_size=300), st.integers(1, 4_000), st.randoms())
def test_the_choice_is_a_function_of_the_texts_and_bounded(numbers, most, random):
    documents = [f"document {number} " * (number + 1) for number in numbers]
    if len(set(documents)) < 2:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out, "MOST_BYTES", most)
        train, chosen = hold_out(documents)
        assert train
        assert chosen
        assert Counter([*train, *chosen]) == Counter(documents)
        assert set(train).isdisjoint(chosen)
        if isinstance(train, Selection):
            assert train.num_bytes == sum(len(text) for text in train)
        assert len(set(chosen)) == 1 or sum(map(len, chosen)) <= most
        random.shuffle(documents)
        assert sorted(hold_out(documents)[1]) == sorted(chosen)


def test_of_more_text_a_smaller_share_is_held_out(monkeypatch):
    documents = [f"{number:04}" for number in range(2_000)]
    _, chosen = hold_out(documents)
    assert 0.8 * SHARE < len(chosen) / 2_000 < 1.2 * SHARE
    monkeypatch.setattr(held_out, "MOST_BYTES", 4 * len(chosen) - 1)
    _, half = hold_out(documents)
    assert set(half) < set(chosen)
    assert 0.3 < len(half) / len(chosen) < 0.7
