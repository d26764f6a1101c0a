"""GELU, exact and with tanh: far from zero, and the difference between the two."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.rowwise import gelu
from minigrad.kernels.rowwise.gelu import gelu_backward, gelu_forward


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_from_zero_it_is_zero_or_its_input(exact: bool, dtype: type) -> None:
    x = np.array([-1e30, -1e6, -50, 50, 1e6, 1e30], dtype)
    np.testing.assert_array_equal(gelu_forward(x, exact), np.where(x > 0, x, 0))
    np.testing.assert_array_equal(gelu_backward(np.ones_like(x), x, exact), x > 0)


def test_both_agree_to_a_thousandth() -> None:
    x = np.linspace(-6, 6, 1_201)
    difference = np.abs(gelu_forward(x, True) - gelu_forward(x, False)).max()
    assert 1e-5 < difference < 1e-3


@pytest.mark.parametrize("exact", [True, False])
def test_the_gradient_is_the_slope(exact: bool) -> None:
    x, step = np.linspace(-4, 4, 81), 1e-6
    slope = (gelu_forward(x + step, exact) - gelu_forward(x - step, exact)) / (2 * step)
    np.testing.assert_allclose(gelu_backward(np.full_like(x, 3.0), x, exact), 3 * slope, atol=1e-8)


def test_the_shape_stays() -> None:
    assert gelu_forward(np.zeros((2, 3, 4), np.float32), True).shape == (2, 3, 4)
    assert gelu_backward(np.zeros((0, 4)), np.zeros((0, 4)), False).shape == (0, 4)


@pytest.mark.parametrize("exact", [True, False])
def test_plain_python_reads_nothing_of_an_empty_array(monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    """Compiled, a loop does not notice an index outside an array."""
    for name in [name for name in vars(gelu) if name.startswith("_gelu")]:
        loop = getattr(gelu, name)
        monkeypatch.setattr(gelu, name, getattr(loop, "py_func", loop))
    empty = np.zeros((0, 3), np.float32)
    assert gelu_forward(empty, exact).shape == gelu_backward(empty, empty, exact).shape == (0, 3)
