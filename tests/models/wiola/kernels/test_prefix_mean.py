"""Running means: sequences apart, continued from earlier rows, and long sums in float64."""

from __future__ import annotations

import numpy as np

from models.wiola.kernels.prefix_mean import prefix_mean_backward, prefix_mean_forward


def test_each_sequence_starts_anew() -> None:
    x, offsets = np.array([[1.0], [3], [5], [7]]), np.array([0, 2, 2, 4])
    y = prefix_mean_forward(x, offsets, np.zeros((3, 1)), np.zeros(3, np.int64))
    np.testing.assert_array_equal(y[:, 0], [1, 2, 5, 6])


def test_a_continued_sequence_gives_the_means_of_the_whole() -> None:
    x = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    whole = prefix_mean_forward(x, np.array([0, 9]), np.zeros((1, 4)), np.zeros(1, np.int64))
    before = x[:5].astype(np.float64).sum(axis=0, keepdims=True)
    rest = prefix_mean_forward(x[5:], np.array([0, 4]), before, np.array([5]))
    np.testing.assert_allclose(rest, whole[5:], rtol=1e-6)


def test_sums_are_float64() -> None:
    x = np.ones((3, 1), np.float32)
    y = prefix_mean_forward(x, np.array([0, 3]), np.array([[2.0**25]]), np.zeros(1, np.int64))
    assert y[-1, 0] == np.float32((2**25 + 3) / 3)  # in float32, 2^25 + 1 would be 2^25


def test_the_gradient_is_that_of_all_later_means() -> None:
    dy = np.array([[1.0], [2], [3]])
    dx = prefix_mean_backward(dy, np.array([0, 3]), np.array([1]))
    np.testing.assert_allclose(dx[:, 0], [1 / 2 + 2 / 3 + 3 / 4, 2 / 3 + 3 / 4, 3 / 4])
