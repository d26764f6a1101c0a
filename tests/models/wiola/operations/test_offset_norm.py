"""The norm with an offset: rows that overflow, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, ShapeError
from models.wiola.operations.offset_norm import offset_rms_norm


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_whose_squares_overflow_is_nan_and_others_are_not_touched(dtype: type) -> None:
    large = 1e30 if dtype == np.float32 else 1e200
    for value in (large, np.inf, -np.inf, np.nan):
        x = np.ones((3, 5), dtype)
        x[1, 2] = value
        y = offset_rms_norm(x, np.ones(5, dtype), np.zeros(5, dtype)).data
        assert np.isnan(y[1]).all()
        np.testing.assert_allclose(y[[0, 2]], 1, rtol=1e-4)


@pytest.mark.parametrize("eps", [-9, math.nan, math.inf, "small"])
def test_an_eps_that_cannot_be_used_is_refused(eps: Any) -> None:
    with pytest.raises(InputError, match=r"eps of offset_rms_norm takes a finite number of at least 0, not "):
        offset_rms_norm(np.ones((2, 3)), np.ones(3), np.ones(3), eps=eps)


@pytest.mark.parametrize(("weight", "offset"), [(3, 4), (4, 3)])
def test_a_weight_or_an_offset_that_does_not_fit_is_refused(weight: int, offset: int) -> None:
    with pytest.raises(ShapeError, match=r"offset_rms_norm .* input \(2, 4\), weight \(3,\), expected \(4,\)"):
        offset_rms_norm(np.zeros((2, 4)), np.ones(weight), np.ones(offset))
