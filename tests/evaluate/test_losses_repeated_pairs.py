"""A token completes a repeated pair if it and the token before it stood side by side earlier in its sequence."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import gather
from minigrad.evaluate.losses import completes_a_pair


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.data())
def test_a_pair_is_repeated_if_it_stood_earlier_in_the_sequence(lengths, data):
    row = np.array(data.draw(st.lists(st.integers(0, 2), min_size=sum(lengths) + 1, max_size=sum(lengths) + 1)))
    starts = np.cumsum(lengths) - lengths
    batch = gather(row, starts, np.array(lengths))
    known = data.draw(st.integers(0, 4))
    batch.targets[batch.layout.positions < known] = IGNORE  # read, not scored
    found, expected = completes_a_pair(batch), []
    for start, length in zip(starts, lengths, strict=True):
        pairs = list(itertools.pairwise(row[start : start + length + 1].tolist()))
        expected += [pair in pairs[:place] for place, pair in enumerate(pairs)]
    counted = batch.targets != IGNORE
    assert found[counted].tolist() == np.array(expected)[counted].tolist()
