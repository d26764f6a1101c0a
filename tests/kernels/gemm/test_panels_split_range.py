"""Where three bfloat16 parts are as close as float32, and where they are not: tried on an emulation of tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad.kernels.gemm.panels import Extremes, is_as_close_as_float32
from tests.kernels.codegen.twins import split

Array = NDArray[Any]
_PRODUCTS = [(1, 1), (1, 0), (2, 0), (0, 0), (0, 1), (0, 2)]


def flushed(x: Array) -> Array:
    """Return float32 with zeros for what is below 2^-126, as tile registers read and write it."""
    return np.where(np.abs(x) < 2.0**-126, np.float32(0), x).astype(np.float32)


def in_tiles(a: Array, b: Array) -> Array:
    """Multiply as tile registers do: step by step, every product and every sum rounded and flushed."""
    parts = [[flushed((bits << 16).view(np.float32)) for bits in split(x)] for x in (a, b)]
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for first in range(0, a.shape[1], 2):
        for i, j in _PRODUCTS:
            pair = np.zeros_like(total)
            for k in range(first, min(first + 2, a.shape[1])):
                pair = flushed(pair + flushed(np.outer(parts[0][i][:, k], parts[1][j][k])))
            total = flushed(total + pair)
    return total


def extremes(x: Array) -> Extremes:
    size = np.abs(x)
    return Extremes(float(size.max()), float(size[size > 0].min(initial=np.inf)) if size.any() else 0.0)


def claimed(a: Array, b: Array) -> bool:
    return is_as_close_as_float32(extremes(a), extremes(b), a.shape[1], in_tiles(a, b))


def is_close(a: Array, b: Array) -> bool:
    """Whether the product in tiles has the error of float32: a rounding for each step, and the parts left out."""
    exact, size = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    return bool((np.abs(in_tiles(a, b) - exact) <= (a.shape[1] + 12) * 2.0**-24 * size).all())


def drawn(seed: int, exponents: tuple[int, int], spread: int, zeros: float) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    found = []
    for shape, exponent in zip(((5, 6), (6, 4)), exponents, strict=True):
        x = rng.normal(size=shape) * 2.0 ** (exponent + rng.integers(-spread, spread + 1, shape))
        found.append(np.where(rng.random(shape) < zeros, 0, x).astype(np.float32))
    return found[0], found[1]


@given(
    seed=st.integers(0, 2**16),
    exponents=st.tuples(st.integers(-126, 120), st.integers(-126, 120)),
    spread=st.sampled_from([0, 2, 30]),
    zeros=st.sampled_from([0.0, 0.5]),
)
def test_what_is_claimed_to_be_close_is_close(seed: int, exponents: tuple[int, int], spread: int, zeros: float) -> None:
    with np.errstate(all="ignore"):
        a, b = drawn(seed, exponents, spread, zeros)
        assert not claimed(a, b) or is_close(a, b)


def test_usual_values_are_in_the_range_and_extreme_ones_are_not() -> None:
    a, b = drawn(0, (0, 0), 3, 0.2)
    assert claimed(a, b)
    assert claimed(a * 0, b)
    for factor in (np.inf, np.nan, 2.0**125, 2.0**-100):
        with np.errstate(all="ignore"):
            assert not claimed(a * np.float32(factor), b)
    tiny = np.float32(2.0**-52)
    assert not claimed(a * tiny, b * tiny)


def test_a_tiny_element_beside_usual_ones_does_not_matter() -> None:
    a, b = drawn(0, (0, 0), 0, 0.0)
    a[1, 1] = 1e-38
    assert claimed(a, b)
    assert is_close(a, b)


def test_the_emulation_shows_what_is_lost() -> None:
    a, b = drawn(0, (-60, -60), 0, 0.0)
    assert not is_close(a, b)
