"""Words of two bfloat16: rounded or split, compiled and in plain Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad.kernels.codegen.bfloat16_pairs import round_pairs, split_pairs
from minigrad.kernels.codegen.vector_moves import SIDE
from tests.kernels.codegen.twins import rounded, split

Array = NDArray[Any]


@numba.njit
def _round(x: Array, second: int, distance: int, words: Array) -> None:
    round_pairs(x, 1, 1 + second, distance, words, 2)


@numba.njit
def _split(x: Array, second: int, distance: int, words: Array) -> None:
    split_pairs(x, 1, 1 + second, distance, words, 2, SIDE)


@pytest.mark.parametrize(("second", "distance"), [(1, 2), (SIDE, 1), (2 * SIDE + 3, 1)])
@given(seed=st.integers(0, 2**16), exponent=st.integers(-30, 30))
def test_each_word_holds_two_elements(second: int, distance: int, seed: int, exponent: int) -> None:
    x = (np.random.default_rng(seed).normal(size=3 * SIDE + 5) * 2.0**exponent).astype(np.float32)
    pairs = [x[start : start + distance * SIDE : distance] for start in (1, 1 + second)]
    for call, parts in (
        (_round, [[rounded(each) for each in pairs]]),
        (_split, list(zip(*map(split, pairs), strict=True))),
    ):
        words = np.zeros(2 + len(parts) * SIDE, np.uint32)
        call(x, second, distance, words)
        wanted = [low | high << np.uint32(16) for low, high in parts]
        np.testing.assert_array_equal(words[2:].reshape(-1, SIDE), wanted)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda x: x == 0 or abs(x) > 2.0**-100))
def test_no_bit_is_lost_when_an_element_is_split(x: float) -> None:
    elements, words = np.zeros(2 * SIDE + 1, np.float32), np.zeros(3 * SIDE + 2, np.uint32)
    elements[1] = x
    _split(elements, 1, 2, words)
    places = (2, 2 + SIDE, 2 + 2 * SIDE)
    high, middle, low = (float((words[place : place + 1] << 16).view(np.float32)[0]) for place in places)
    assert high + middle + low == x
    assert abs(high) <= abs(x)
    assert abs(middle) <= 2.0**-7 * abs(x)
    assert abs(low) <= 2.0**-16 * abs(x)
