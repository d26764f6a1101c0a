"""The merging scan: pairs from left to right, within a sequence, and rows of zeros."""

from __future__ import annotations

import numpy as np

from models.wiola.kernels.merging import merge_groups

EAST, NORTH, ZERO = [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]


def test_equal_rows_join_in_pairs() -> None:
    found = merge_groups(np.array([EAST] * 5), np.array([0, 5]), 0.9)
    assert found.tolist() == [False, True, False, True, False]


def test_no_row_joins_across_sequences_or_directions() -> None:
    x = np.array([EAST, EAST, EAST, NORTH, NORTH], np.float32)
    assert merge_groups(x, np.array([0, 1, 5]), 0.5).tolist() == [False, False, True, False, True]


def test_a_row_of_zeros_has_cosine_zero_with_every_row() -> None:
    x = np.array([ZERO, ZERO, EAST, ZERO])
    assert not merge_groups(x, np.array([0, 4]), 0.0).any()
    assert merge_groups(x, np.array([0, 4]), -0.5).tolist() == [False, True, False, True]


def test_the_length_of_rows_does_not_matter() -> None:
    x = np.array([[1e-20, 0], [1e20, 0]], np.float32)
    assert merge_groups(x, np.array([0, 2]), 0.99).tolist() == [False, True]
