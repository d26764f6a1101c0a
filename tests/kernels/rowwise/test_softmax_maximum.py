"""The maximum of a row: every width beside the lanes, every place, and rows of -inf."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.rowwise.softmax import LANES, row_maximum


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, LANES - 1, LANES, LANES + 1, 3 * LANES + 2])
def test_the_maximum_is_found_at_every_place(dtype: type, width: int) -> None:
    lanes = np.empty(LANES, dtype)
    for place in range(width):
        x = np.full((2, width + 1), -5, dtype)
        x[1, place], x[1, width], x[0] = 3, 100, 200  # beyond the width, and in the row before
        assert row_maximum(x, 1, width, lanes) == 3


def test_an_empty_row_and_a_masked_row_have_minus_infinity() -> None:
    lanes, x = np.empty(LANES, np.float32), np.full((1, 40), -np.inf, np.float32)
    assert row_maximum(x, 0, 0, lanes) == -np.inf
    assert row_maximum(x, 0, 40, lanes) == -np.inf
    x[0, 33] = -1e38
    assert row_maximum(x, 0, 40, lanes) == np.float32(-1e38)
