"""Rotary angles: their tables, the two ways of pairing elements, and the rotation of packed rows."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import Tensor, nn
from minigrad.ops.rotary import rotary_formula


def test_the_tables_are_cosines_and_sines_of_position_times_frequency() -> None:
    angles = nn.RotaryAngles(6, 100.0)
    np.testing.assert_allclose(angles.frequencies, [1, 100 ** (-2 / 6), 100 ** (-4 / 6)])
    cosine, sine = angles.tables(5, np.dtype(np.float64))
    for position in range(5):
        np.testing.assert_allclose(cosine[position], np.cos(position * angles.frequencies))
        np.testing.assert_allclose(sine[position], np.sin(position * angles.frequencies))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_longer_tables_begin_with_the_shorter_ones(dtype: str) -> None:
    angles = nn.RotaryAngles(8, 10_000.0)
    short = [table.copy() for table in angles.tables(10, np.dtype(dtype))]
    long = angles.tables(3_000, np.dtype(dtype))
    for before, after in zip(short, long, strict=True):
        assert after.dtype == dtype
        assert len(after) >= 3_000
        np.testing.assert_array_equal(after[: len(before)], before)
    assert angles.tables(20, np.dtype(dtype))[0] is long[0]


@pytest.mark.parametrize("interleaved", [False, True])
def test_each_row_is_rotated_by_the_angles_of_its_position(interleaved: bool) -> None:
    angles, x = nn.RotaryAngles(4, 100.0, interleaved=interleaved), np.random.default_rng(0).normal(size=(3, 2, 4))
    layout = nn.Layout(np.array([0, 1, 3]), np.array([7, 0, 1]))
    cosine, sine = angles.tables(8, np.dtype(np.float64))
    wanted = rotary_formula(x, cosine=cosine, sine=sine, positions=layout.positions, interleaved=interleaved)
    np.testing.assert_allclose(angles.rotate(Tensor(x), layout).data, wanted, rtol=1e-12)


def test_interleaved_pairs_are_half_split_pairs_in_another_order() -> None:
    size, layout = 8, nn.Layout.rectangular(2, 5)
    x = np.random.default_rng(0).normal(size=(10, 3, size))
    order = np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)])  # evens first: pair j is then (j, j + D/2)
    interleaved = nn.RotaryAngles(size, 10_000.0, interleaved=True).rotate(Tensor(x), layout).data
    halves = nn.RotaryAngles(size, 10_000.0).rotate(Tensor(x[..., order]), layout).data
    np.testing.assert_allclose(interleaved[..., order], halves, rtol=0, atol=1e-14)
    assert np.abs(interleaved - nn.RotaryAngles(size, 10_000.0).rotate(Tensor(x), layout).data).max() > 0.1
