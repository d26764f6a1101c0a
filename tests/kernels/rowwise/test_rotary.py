"""Rotary positions: a rotation keeps lengths, and the other direction undoes it."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.rowwise.rotary import rotate

ANGLES = np.outer(np.arange(9), [1.0, 0.1, 0.01])
COSINE, SINE = np.cos(ANGLES), np.sin(ANGLES)
X, POSITIONS = np.random.default_rng(0).normal(size=(5, 2, 6)), np.array([0, 8, 3, 3, 1])


@pytest.mark.parametrize("interleaved", [False, True])
def test_backwards_undoes_forwards(interleaved: bool) -> None:
    y = rotate(X, COSINE, SINE, POSITIONS, 1, interleaved)
    assert y.shape == X.shape
    np.testing.assert_array_equal(y[0], X[0])  # position 0 is not rotated
    np.testing.assert_allclose((y * y).sum(axis=-1), (X * X).sum(axis=-1), rtol=1e-12)
    np.testing.assert_allclose(rotate(y, COSINE, SINE, POSITIONS, -1, interleaved), X, atol=1e-12)


def test_both_conventions_rotate_the_same_pairs_in_another_order() -> None:
    order = [0, 3, 1, 4, 2, 5]  # element j of the interleaved order is element order[j] of the halves
    halves = rotate(X, COSINE, SINE, POSITIONS, 1, False)
    np.testing.assert_allclose(rotate(X[..., order], COSINE, SINE, POSITIONS, 1, True), halves[..., order], atol=1e-15)


def test_products_depend_on_the_difference_of_positions_only() -> None:
    q, k = X[:1], X[1:2]

    def product(a: int, b: int) -> np.ndarray:
        one, other = (rotate(x, COSINE, SINE, np.array([p]), 1, False) for x, p in ((q, a), (k, b)))
        return (one * other).sum(axis=-1)

    np.testing.assert_allclose(product(2, 5), product(4, 7), rtol=1e-10)
    assert not np.allclose(product(2, 5), product(2, 6))
