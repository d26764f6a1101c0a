"""The largest values of a row, and draws from it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minigrad.kernels.rowwise.selection import draw_index, select_largest


@given(st.lists(st.integers(0, 5), min_size=1, max_size=50), st.integers(0, 60))
def test_the_largest_values_come_first_and_nothing_is_lost(values: list[int], count: int) -> None:
    order = np.arange(len(values))
    found = select_largest(np.array(values, float), np.ones(len(values)), order, float(count))
    wanted = sorted(range(len(values)), key=lambda index: (-values[index], index))
    assert sorted(order[:found]) == sorted(wanted[:count])
    assert sorted(order) == list(range(len(values)))


def test_rows_in_any_order_need_few_splits() -> None:
    # A rising or falling row is the slowest for a quicksort that takes the first value to split by.
    values = np.arange(200_000.0)
    for row in (values, values[::-1].copy(), np.zeros_like(values)):
        order = np.arange(len(row))
        assert select_largest(row, np.ones_like(row), order, 1_000.0) == 1_000
        assert sorted(row[order[:1_000]]) == sorted(row)[-1_000:]


def test_a_draw_never_has_the_weight_zero() -> None:
    weights = np.zeros(300)
    weights[[70, 140]] = 0.1, 0.3
    assert [draw_index(weights, uniform) for uniform in (0.0, 0.2, 0.26, 1.0)] == [70, 70, 140, 140]


def test_the_whole_sum_is_that_of_the_last_weight() -> None:
    weights = np.zeros(200)
    weights[:2] = 1
    assert [draw_index(weights, uniform) for uniform in (0.4, 0.6, 1.0)] == [0, 1, 1]
