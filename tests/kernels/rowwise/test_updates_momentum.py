"""Momentum: equal gradients are looked ahead to where they lead, and a step keeps a share and takes the rest away."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.rowwise.updates import LIFT, look_ahead, step


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_mean_moves_towards_the_gradient_and_the_result_is_one_move_further(dtype: type) -> None:
    m, gradient = np.zeros(5, dtype), np.arange(5, dtype=dtype)
    for moves in (1, 2, 3):
        ahead = look_ahead(m, gradient, 0.5, 0.75)
        np.testing.assert_allclose(m, (1 - 0.75**moves) * 0.5 * gradient, rtol=1e-6)
        np.testing.assert_allclose(ahead, LIFT * (1 - 0.75 ** (moves + 1)) * 0.5 * gradient, rtol=1e-6)
    assert ahead.dtype == dtype
    assert gradient.tolist() == [0, 1, 2, 3, 4]


def test_the_smallest_numbers_are_looked_ahead_to() -> None:
    m, gradient = np.zeros(2, np.float32), np.array([1e-45, 0], np.float32)
    ahead = look_ahead(m, gradient, 1.0, 0.85)
    assert m[0] == 0  # 0.15 of the smallest number
    np.testing.assert_allclose(ahead, LIFT * 0.15 * gradient.astype(np.float64), rtol=1e-6)


def test_with_a_gradient_of_zero_the_mean_shrinks_and_the_result_is_zero() -> None:
    m = np.array([4.0, -8.0], np.float32)
    assert not look_ahead(m, np.zeros(2, np.float32), 1.0, 0.75).any()
    assert m.tolist() == [3.0, -6.0]


def test_a_step_shrinks_the_weights_and_takes_the_update_away() -> None:
    w, update = np.array([1.0, -2.0, 4.0], np.float32), np.array([1.0, 1.0, 0.0], np.float32)
    step(w, update, 0.5, 0.75)
    assert w.tolist() == [0.25, -2.0, 3.0]
    assert update.tolist() == [1, 1, 0]
