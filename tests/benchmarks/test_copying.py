"""Copying is measured on the tokens that complete a pair seen before, with the losses that the model has there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
from benchmarks.copying import completes_a_pair, losses
from minigrad.data.batches import Batch


@given(st.lists(st.integers(0, 3), min_size=2, max_size=20))
def test_a_pair_is_repeated_if_it_stood_earlier_in_the_row(tokens: list[int]) -> None:
    pairs = list(itertools.pairwise(tokens))
    expected = [pair in pairs[:place] for place, pair in enumerate(pairs)]
    assert completes_a_pair(np.array(tokens)).tolist() == expected


def test_the_losses_are_those_of_the_model() -> None:
    """Weighted by their shares, both parts together are the mean loss of the model."""
    model = models.build("vidya-v2", "nano", vocab_size=261, num_layers=1, dropout=0.0)
    row = np.random.default_rng(0).integers(0, 4, (3, 17)).astype(np.int32)
    found = losses(model, [Batch.rectangular(row, row)])
    assert 0 < found["share"] < 1
    mean = found["share"] * found["repeated"] + (1 - found["share"]) * found["others"]
    loss = model.loss(row, np.concatenate([row[:, 1:], np.full((3, 1), -100, np.int32)], axis=1)).item()
    assert mean == pytest.approx(loss, rel=1e-5)
