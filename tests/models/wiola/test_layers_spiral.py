"""Spiral positions: the paper's formulas, one rotation instead of two windings, and norms that the radius changes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import Tensor, nn
from models.wiola.layers import SpiralAngles
from tests.models.wiola.tiny import draw

Array = NDArray[Any]


def spiral(amplitude: float = 0.1, divisor: float = 8.0, size: int = 64) -> SpiralAngles:
    return SpiralAngles(size, 10_000.0, divisor=divisor, amplitude=amplitude, frequency=0.01)


def test_rotated_rows_keep_their_shape_and_differ_between_positions() -> None:
    x = Tensor(np.ones((6, 2, 64)))
    rotated = spiral().rotate(x, nn.Layout.rectangular(1, 6)).data
    assert rotated.shape == (6, 2, 64)
    assert all(np.abs(rotated[p] - rotated[0]).max() > 0.1 for p in range(1, 6))


def test_norms_are_preserved_with_a_constant_radius_and_not_with_an_oscillating_one() -> None:
    x, layout = draw(50, 1, 64), nn.Layout(np.array([0, 50]), np.arange(0, 2_000, 40))
    before = np.linalg.norm(x, axis=-1)
    for amplitude, preserved in ((0.0, True), (0.1, False)):
        after = np.linalg.norm(spiral(amplitude).rotate(Tensor(x), layout).data, axis=-1)
        assert (np.abs(after / before - 1).max() < 1e-12) == preserved


@given(position=st.integers(0, 4_000), divisor=st.sampled_from([1.0, 2.0, 8.0]))
def test_two_windings_are_one_rotation_at_a_larger_position(position: int, divisor: float) -> None:
    cosine, sine = spiral(0.0, divisor).tables(position + 1, np.dtype(np.float64))
    angles = position * (1 + 1 / divisor) * 10_000.0 ** (-np.arange(0, 64, 2) / 64)
    np.testing.assert_allclose(cosine[position] + 1j * sine[position], np.exp(1j * angles), rtol=0, atol=1e-11)


@pytest.mark.parametrize("position", [0, 1, 2_047])
def test_the_tables_are_the_papers_formulas(position: int) -> None:
    cosine, sine = spiral().tables(position + 1, np.dtype(np.float32))
    for j in range(32):
        omega = 10_000.0 ** (-2 * j / 64)
        angle = position * omega + position * omega / 8
        radius = 1 + 0.1 * math.sin(position * 0.01 * omega)
        # Rounded once, from 64 bits.
        assert cosine[position, j] == pytest.approx(radius * math.cos(angle), abs=1e-7)
        assert sine[position, j] == pytest.approx(radius * math.sin(angle), abs=1e-7)
        assert math.hypot(cosine[position, j], sine[position, j]) == pytest.approx(radius, abs=1e-6)


def test_the_product_of_equal_pairs_is_the_cosine_of_the_distance_times_both_radii() -> None:
    """Eq. 19, which holds for a query and a key with the same direction."""
    cosine, sine = spiral(size=8).tables(301, np.dtype(np.float64))
    omega = 10_000.0 ** (-np.arange(0, 8, 2) / 8)
    for p, q in ((3, 1), (300, 17)):
        radii = [1 + 0.1 * np.sin(position * 0.01 * omega) for position in (p, q)]
        wanted = radii[0] * radii[1] * np.cos((p - q) * omega * 1.125)
        np.testing.assert_allclose(cosine[p] * cosine[q] + sine[p] * sine[q], wanted, rtol=0, atol=1e-12)
