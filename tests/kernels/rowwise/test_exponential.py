"""The polynomial exponential: its error over the whole range, and what it does beyond."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import ops
from minigrad.kernels.rowwise.exponential import exp_float32
from tests import op_checks
from tests.op_table import Case


def exponentials(x: np.ndarray) -> np.ndarray:
    return np.array([exp_float32(np.float32(value)) for value in x], np.float32)


def test_relative_error_over_the_whole_range() -> None:
    x = np.concatenate([np.linspace(-87.3, 88.37, 20_001), np.linspace(-1, 1, 20_001)]).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(exponentials(x) - exact) / exact).max() < 2e-7


def test_exact_at_zero_and_near_the_switch_of_the_power_of_two() -> None:
    assert exp_float32(np.float32(0)) == 1
    edges = (np.arange(-20, 21) + 0.5) * np.log(2)
    near = np.concatenate([np.nextafter(np.float32(e), np.float32([-100, 100])) for e in edges])
    exact = np.exp(near.astype(np.float64))
    assert (np.abs(exponentials(near) - exact) / exact).max() < 2e-7


@pytest.mark.parametrize(
    ("x", "y"), [(-np.inf, 0.0), (-1000.0, 0.0), (-88.0, 0.0), (89.0, np.inf), (1e30, np.inf), (np.inf, np.inf)]
)
def test_beyond_the_range(x: float, y: float) -> None:
    assert exponentials(np.array([x]))[0] == y


def test_nan_stays_nan() -> None:
    assert np.isnan(exponentials(np.array([np.nan]))[0])


def test_never_decreasing() -> None:
    x = np.linspace(-90, 90, 20_001).astype(np.float32)
    y = exponentials(x)
    assert (np.diff(y[np.isfinite(y)].astype(np.float64)) >= 0).all()


def test_nan_is_not_hidden_by_a_kernel() -> None:
    # A maximum that skips NaN, or a fast-math flag too many, would turn NaN into a plausible number.
    rows = np.array([[np.nan, np.nan], [np.nan, -np.inf], [1.0, np.nan], [np.nan, 1.0]], np.float32)
    wide = np.tile(rows, 20)
    for x in (rows, wide):
        for name in ("softmax", "log_softmax"):
            result, _ = op_checks.run(getattr(ops, name), Case((x,)))
            assert np.isnan(result).any(axis=1).all(), name
