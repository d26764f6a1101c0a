"""Keys and values that are kept in few bits, where their formula is delicate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad.kernels.decoding.kept import Kept, empty_rows, keep_rows
from minigrad.typing import Array
from tests.kernels.decoding.kept_twins import packed


def stored(x: Array) -> Array:
    """Return rows x (rows, heads, size) as they are kept in int8."""
    memory = empty_rows("int8", (1, 1, *x.shape), x.dtype)
    numbers = np.arange(len(x))
    keep_rows(x, Kept.of(memory), numbers, numbers)
    return memory[0, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_number_half_way_between_two_is_rounded_in_one_way(dtype: Any) -> None:
    """Means of kept keys often lie half way. A quotient, which a compiler may compute in two ways, would not do."""
    rng = np.random.default_rng(0)
    scales = 2.0**-6 * (1 + rng.integers(0, 128, 500) / 128)  # bfloat16 holds them exactly
    x = ((rng.integers(-126, 126, (500, 2, 6)) + 0.5) * scales[:, None, None]).astype(dtype)
    x[..., :2] = 127 * scales[:, None, None]  # the largest number of either half
    np.testing.assert_array_equal(stored(x), packed(x, Kept.of(empty_rows("int8", (1, 1, 1, 2, 6), dtype)).format))


def test_numbers_too_small_for_an_inverse_are_kept_as_zeros() -> None:
    assert not stored(np.full((1, 1, 6), 1e-39, np.float32))[..., :6].any()
