"""Twins of the selection of the largest values, and of the draw of an index."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.kernels.twin import Arguments, Array, Twin


@st.composite
def _selections(draw: DrawFn, dtype: Any) -> Arguments:
    """Values and costs are whole numbers, so that values are equal often and sums do not depend on their order."""
    size = draw(st.integers(1, 12) | st.just(100))
    values, costs = (np.array(draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)), float) for _ in range(2))
    order = np.flatnonzero(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))))
    return [values, costs, order, float(draw(st.integers(0, 20)))]


def _select_largest(values: Array, costs: Array, order: Array, limit: float) -> int:
    ranked = order[np.argsort(-values[order], kind="stable")]
    return int(np.count_nonzero(np.cumsum(costs[ranked]) - costs[ranked] < limit))


@st.composite
def _draws(draw: DrawFn, dtype: Any) -> Arguments:
    weights = np.zeros(draw(st.sampled_from([1, 63, 64, 65, 200])))
    for index in draw(st.lists(st.integers(0, len(weights) - 1), min_size=1, max_size=9)):
        weights[index] = draw(st.integers(1, 4))
    return [weights, draw(st.integers(0, 16)) / 16]


def _draw_index(weights: Array, uniform: float) -> int:
    above = np.flatnonzero(np.cumsum(weights) > uniform * weights.sum())
    return int(above[0] if len(above) else np.flatnonzero(weights)[-1])


@st.composite
def _rows(draw: DrawFn, dtype: Any) -> Arguments:
    return [np.array(draw(st.lists(st.integers(0, 9), max_size=70)), float)]


TWINS: dict[str, Twin] = {
    "rowwise.selection.select_largest": Twin(_selections, _select_largest),
    "rowwise.selection.draw_index": Twin(_draws, _draw_index),
    "rowwise.selection._sum": Twin(_rows, np.sum),
}
