"""Cross-entropy: ignored rows, extreme logits, and the same gradient in place."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.rowwise.cross_entropy import (
    cross_entropy_backward,
    cross_entropy_forward,
    cross_entropy_in_place,
)


def test_uniform_logits_cost_the_logarithm_of_the_classes() -> None:
    losses, (shifts, totals) = cross_entropy_forward(np.zeros((2, 50), np.float32), np.array([3, 49]), -100)
    np.testing.assert_allclose(losses, np.log(50), rtol=1e-6)
    assert (shifts.tolist(), totals.tolist()) == ([0, 0], [50, 50])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ignored_rows_have_no_loss_and_no_gradient(dtype: type) -> None:
    logits, targets = np.random.default_rng(0).normal(size=(4, 9)).astype(dtype), np.array([-100, 2, -100, 8])
    losses, sums = cross_entropy_forward(logits, targets, -100)
    gradient = cross_entropy_backward(logits, targets, -100, sums, 0.5)
    assert not losses[::2].any()
    assert not gradient[::2].any()
    assert losses[1::2].all()
    np.testing.assert_allclose(gradient[1::2].sum(axis=1), 0, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_in_place_the_loss_and_the_gradient_are_the_same(dtype: type) -> None:
    logits, targets = (3 * np.random.default_rng(1).normal(size=(5, 40))).astype(dtype), np.array([0, -1, 39, 7, -1])
    losses, sums = cross_entropy_forward(logits, targets, -1)
    gradient = cross_entropy_backward(logits, targets, -1, sums, 0.25)
    again = cross_entropy_in_place(logits, targets, -1, np.full(5, 0.25, dtype))
    close = {"rtol": 0, "atol": 1e-6 if dtype == np.float32 else 1e-14}
    np.testing.assert_allclose(again, losses, **close)
    np.testing.assert_allclose(logits, gradient, **close)


def test_extreme_logits_stay_finite() -> None:
    logits = np.array([[1e4, -1e4, 0]], np.float32)
    losses, sums = cross_entropy_forward(logits, np.array([1]), -100)
    assert (losses[0], sums[0][0]) == (2e4, 1e4)
    gradient = cross_entropy_backward(logits, np.array([1]), -100, sums, 1.0)
    np.testing.assert_array_equal(gradient, [[1, -1, 0]])


@pytest.mark.parametrize("shift", [0, 1e3, 1e6, 1e8])
def test_a_number_added_to_all_logits_changes_nothing(shift: float) -> None:
    logits, targets = np.full((1, 3), shift, np.float32), np.array([0])
    losses, sums = cross_entropy_forward(logits, targets, -100)
    gradient = cross_entropy_backward(logits, targets, -100, sums, 1.0)
    in_place = cross_entropy_in_place(logits, targets, -100, np.ones(1, np.float32))
    np.testing.assert_allclose([losses, in_place], np.log(3), rtol=1e-6)
    np.testing.assert_allclose([gradient, logits], np.array([[[-2, 1, 1]]]) / 3 + np.zeros((2, 1, 3)), rtol=1e-6)
