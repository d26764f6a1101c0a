"""Keys and values that are kept in few bits, where their formula is delicate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad.kernels import threads
from minigrad.kernels.decoding.kept import Kept, empty_rows, keep_rows, widened_texts
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


@pytest.mark.usefixtures("_restore_pool")
@pytest.mark.parametrize("format", ["int8", "bfloat16"])
def test_threads_share_the_rows_of_a_text(shared_loops: list[int], format: str) -> None:
    rng, counts = np.random.default_rng(0), np.array([50, 0, 70])
    memory, found = empty_rows(format, (2, 3, 80, 2, 6), np.float32), list[Array]()
    kept = Kept.of(memory)
    x = rng.normal(size=(2 * 3 * 80, 2, 6)).astype(np.float32)
    keep_rows(x, kept, np.arange(len(x)), np.arange(len(x)))
    for count in (1, 2, 3):
        threads.set_threads(count)
        found.append(widened_texts(kept, 1, counts, np.float32))
    assert {2, 3} <= {*shared_loops}
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    wanted = x.reshape(2, 3, 80, 2, 6)[1]
    np.testing.assert_allclose(found[0], np.concatenate([wanted[0, :50], wanted[2, :70]]), atol=0.03)
