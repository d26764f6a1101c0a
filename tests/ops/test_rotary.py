"""Rotary positions: only differences of positions matter, and lengths are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import ShapeError, Tensor, ops
from minigrad.nn import Layout, RotaryAngles
from tests.op_table import Array

places = st.integers(0, 1000)


def turned(x: Array, position: int) -> Array:
    angles = RotaryAngles(8, 10_000.0)
    return angles.rotate(Tensor(x), Layout(np.array([0, 1]), np.array([position]))).data


@given(q_place=places, k_place=places, shift=places, seed=st.integers(0, 99))
def test_products_depend_on_the_distance_only(q_place: int, k_place: int, shift: int, seed: int) -> None:
    q, k = np.random.default_rng(seed).normal(size=(2, 1, 2, 8))
    here = (turned(q, q_place) * turned(k, k_place)).sum(axis=-1)
    there = (turned(q, q_place + shift) * turned(k, k_place + shift)).sum(axis=-1)
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(turned(q, q_place), axis=-1), np.linalg.norm(q, axis=-1))


def test_errors() -> None:
    tables = {"cosine": np.ones((4, 3)), "sine": np.zeros((4, 3))}
    with pytest.raises(ShapeError, match="positions 0 to 3, not for 4"):
        ops.rotary(Tensor(np.zeros((2, 1, 6))), positions=np.array([0, 4]), **tables)
    with pytest.raises(ShapeError, match=r"\(2, 1, 8\)"):
        ops.rotary(Tensor(np.zeros((2, 1, 8))), positions=np.array([0, 1]), **tables)
