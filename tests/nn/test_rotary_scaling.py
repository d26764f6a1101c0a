"""Rotary positions for longer sequences: each way against its formula, and the frequencies that it keeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import InputError, Tensor
from minigrad.nn import Layout, LinearAngles, NTKAngles, RotaryAngles, YarnAngles

Array = NDArray[Any]

SIZE, THETA, CONTEXT = 64, 100_000.0, 2_048

factors = st.floats(1.0, 64.0)
sizes = st.integers(2, 40).map(lambda half: 2 * half)
thetas = st.floats(10.0, 1e6)


def tables(angles: RotaryAngles, positions: int = 64) -> tuple[Array, Array]:
    return angles.tables(positions, np.dtype(np.float64))


@given(factor=factors, size=sizes, theta=thetas)
def test_linear_divides_the_positions(factor: float, size: int, theta: float) -> None:
    cosine, sine = tables(LinearAngles(size, theta, factor=factor))
    for position in (0, 1, 17, 63):
        angles = [position / factor * theta ** (-2 * pair / size) for pair in range(size // 2)]
        np.testing.assert_allclose(cosine[position], np.cos(angles), atol=1e-12)
        np.testing.assert_allclose(sine[position], np.sin(angles), atol=1e-12)


@given(factor=st.integers(1, 16), position=st.integers(0, 500), seed=st.integers(0, 99))
def test_with_linear_scaling_a_position_is_rotated_as_position_over_factor(
    factor: int, position: int, seed: int
) -> None:
    x = Tensor(np.random.default_rng(seed).normal(size=(1, 2, 8)))

    def rotated(angles: RotaryAngles, position: int) -> Array:
        return angles.rotate(x, Layout(np.array([0, 1]), np.array([position]))).data

    far = rotated(LinearAngles(8, THETA, factor=factor), factor * position)
    np.testing.assert_allclose(far, rotated(RotaryAngles(8, THETA), position), atol=1e-12)


@given(factor=factors, size=sizes, theta=thetas)
def test_ntk_divides_the_lowest_frequency_by_the_factor_and_keeps_the_highest(
    factor: float, size: int, theta: float
) -> None:
    plain, scaled = RotaryAngles(size, theta).frequencies, NTKAngles(size, theta, factor=factor).frequencies
    assert scaled[0] == plain[0] == 1.0
    np.testing.assert_allclose(scaled[-1], plain[-1] / factor)
    base = theta * factor ** (size / (size - 2))
    np.testing.assert_allclose(scaled, [base ** (-2 * pair / size) for pair in range(size // 2)])


def yarn_by_hand(factor: float, theta: float = THETA, fast: float = 32.0, slow: float = 1.0) -> list[float]:
    """Compute the frequencies one pair after the other."""
    found = []
    first = math.floor(SIZE * math.log(CONTEXT / (fast * 2 * math.pi)) / (2 * math.log(theta)))
    last = math.ceil(SIZE * math.log(CONTEXT / (slow * 2 * math.pi)) / (2 * math.log(theta)))
    for pair in range(SIZE // 2):
        frequency = theta ** (-2 * pair / SIZE)
        reduced = min(max((pair - first) / (last - first), 0.0), 1.0)
        found.append(reduced * frequency / factor + (1 - reduced) * frequency)
    return found


@given(factor=factors, theta=st.floats(1e3, 1e6), slow=st.floats(0.5, 4.0), fast=st.floats(8.0, 64.0))
def test_yarn_is_its_formula(factor: float, theta: float, slow: float, fast: float) -> None:
    angles = YarnAngles(SIZE, theta, factor=factor, original_context=CONTEXT, beta_fast=fast, beta_slow=slow)
    np.testing.assert_allclose(angles.frequencies, yarn_by_hand(factor, theta, fast, slow), rtol=1e-12)
    cosine, sine = tables(angles)
    scale = 0.1 * math.log(factor) + 1
    np.testing.assert_allclose(np.hypot(cosine, sine), scale)
    np.testing.assert_allclose(cosine[5], scale * np.cos(5 * angles.frequencies))


def test_yarn_keeps_high_frequencies_and_divides_low_ones_by_the_factor() -> None:
    plain = RotaryAngles(SIZE, THETA).frequencies
    ratio = plain / YarnAngles(SIZE, THETA, factor=4.0, original_context=CONTEXT).frequencies
    rotations = CONTEXT * plain / (2 * math.pi)
    np.testing.assert_allclose(ratio[rotations > 64], 1.0)
    np.testing.assert_allclose(ratio[rotations < 0.5], 4.0)
    assert (np.diff(ratio) > -1e-12).all()
    assert ((ratio > 1.01) & (ratio < 3.99)).sum() > 5


@given(size=sizes, theta=thetas, context=st.integers(1, 8_192))
def test_a_factor_of_one_changes_nothing(size: int, theta: float, context: int) -> None:
    plain = tables(RotaryAngles(size, theta))
    for angles in (
        LinearAngles(size, theta, factor=1.0),
        NTKAngles(size, theta, factor=1.0),
        YarnAngles(size, theta, factor=1.0, original_context=context),
    ):
        np.testing.assert_allclose(tables(angles), plain, atol=1e-12)


def test_a_given_attention_factor_replaces_the_computed_one() -> None:
    angles = YarnAngles(SIZE, THETA, factor=4.0, original_context=CONTEXT, attention_factor=0.5)
    np.testing.assert_allclose(np.hypot(*tables(angles)), 0.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_longer_tables_begin_with_the_shorter_ones(dtype: str) -> None:
    angles = YarnAngles(SIZE, THETA, factor=4.0, original_context=CONTEXT)
    short = [table.copy() for table in angles.tables(10, np.dtype(dtype))]
    long = angles.tables(5_000, np.dtype(dtype))
    assert all(table.dtype == dtype and len(table) >= 5_000 for table in long)
    for before, after in zip(short, long, strict=True):
        np.testing.assert_array_equal(after[: len(before)], before)


def yarn(**settings: Any) -> YarnAngles:
    return YarnAngles(4, 10.0, factor=2.0, original_context=8, **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RotaryAngles(0, 100.0), "head_dim of RotaryAngles takes a whole number of at least 1, not 0"),
        (lambda: RotaryAngles(4, -100.0), r"theta of RotaryAngles takes a finite number above 0, not -100\.0"),
        (lambda: LinearAngles(4, 100.0, factor=0.0), r"factor of LinearAngles .* above 0, not 0\.0"),
        (lambda: NTKAngles(4, 100.0, factor=math.nan), "factor of NTKAngles .*, not nan"),
        (lambda: NTKAngles(2, 100.0, factor=2.0), "head_dim of NTKAngles .* at least 3, not 2"),
        (lambda: YarnAngles(4, 1.0, factor=2.0, original_context=8), r"theta of YarnAngles .* above 1, not 1\.0"),
        (lambda: YarnAngles(4, 10.0, factor=-2.0, original_context=8), r"factor of YarnAngles .*, not -2\.0"),
        (lambda: YarnAngles(4, 10.0, factor=2.0, original_context=0), "original_context of YarnAngles .*, not 0"),
        (lambda: RotaryAngles(5, 100.0), "head_dim of RotaryAngles must be even, .* it is 5"),
        (
            lambda: YarnAngles(5, 10.0, factor=2.0, original_context=8),
            "head_dim of YarnAngles must be even, .* it is 5",
        ),
        (lambda: yarn(beta_slow=2.0, beta_fast=2.0), r"beta_slow of YarnAngles \(2\.0\) must be below beta_fast"),
        (lambda: yarn(attention_factor=math.nan), "attention_factor of YarnAngles .* above 0, not nan"),
        (lambda: yarn(attention_factor="a"), "attention_factor of YarnAngles .* above 0, not 'a'"),
    ],
)
def test_settings_that_angles_cannot_use_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
