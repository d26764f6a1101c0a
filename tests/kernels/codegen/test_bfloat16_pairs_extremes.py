"""The extremes of elements: compiled, they are those of plain Python, also of zeros, infinity and NaN."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad.kernels.codegen.bfloat16_pairs import NO_EXTREMES, update_extremes
from minigrad.kernels.codegen.vector_moves import SIDE

Array = NDArray[Any]


@numba.njit
def _update(x: Array, start: int, extremes: Array) -> None:
    update_extremes(x, start, extremes)


@given(elements=st.lists(st.floats(width=32), min_size=2 * SIDE + 3, max_size=2 * SIDE + 3))
def test_the_largest_and_the_smallest_that_is_not_zero(elements: list[float]) -> None:
    x = np.array(elements, np.float32)
    compiled, plain = NO_EXTREMES.copy(), NO_EXTREMES.copy()
    for start in (3, 3 + SIDE):
        _update(x, start, compiled)
        update_extremes(x, start, plain)
    np.testing.assert_array_equal(compiled, plain)
    size = np.abs(x[3:])
    largest, smallest = (found.view(np.float32)[0] for found in (compiled[:SIDE].max(keepdims=True), least(compiled)))
    np.testing.assert_array_equal(np.isfinite(largest), np.isfinite(size).all())
    if np.isfinite(largest):
        assert largest == size.max()
        assert smallest == size[size > 0].min(initial=np.inf) or not size.any()


def least(extremes: Array) -> Array:
    return extremes[SIDE:].min(keepdims=True) + np.uint32(1)
