"""Wiola's norm, positions and feed-forward streams: what the paper's table IX tests of them, and what it does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import Tensor, nn, ops
from minigrad.autograd import gradcheck
from models.wiola.feed_forward import DualStreamFeedForward
from models.wiola.norm import WiolaRMSNorm
from models.wiola.spiral import SpiralAngles

Array = NDArray[Any]


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def spiral(amplitude: float = 0.1, divisor: float = 8.0, size: int = 64) -> SpiralAngles:
    return SpiralAngles(size, 10_000.0, divisor=divisor, amplitude=amplitude, frequency=0.01)


# The norm


def test_the_norm_keeps_the_shape() -> None:
    assert WiolaRMSNorm(64)(Tensor(draw(3, 5, 64).astype(np.float32))).shape == (3, 5, 64)


def test_an_offset_changes_the_norm_and_none_is_rms_norm_bit_for_bit() -> None:
    x, weight = draw(4, 16), draw(16, seed=1)
    plain = ops.rms_norm(Tensor(x), Tensor(weight), eps=1e-6).data
    assert (
        ops.offset_rms_norm(Tensor(x), Tensor(weight), Tensor(np.zeros(16)), eps=1e-6).data.tobytes() == plain.tobytes()
    )
    assert np.abs(ops.offset_rms_norm(Tensor(x), Tensor(weight), Tensor(np.ones(16))).data - plain).max() > 0.1


def test_large_numbers_do_not_overflow_the_norm() -> None:
    assert np.isfinite(WiolaRMSNorm(64)(Tensor((1e4 * draw(8, 64)).astype(np.float32))).data).all()


def test_the_papers_gradient_of_the_offset_is_wrong_where_the_weight_is_not_one() -> None:
    x, weight, offset, dy = draw(1, 8), 1 + draw(8, seed=1) / 2, draw(8, seed=2) / 2, draw(1, 8, seed=3)
    parameter = Tensor(offset, requires_grad=True)
    ops.offset_rms_norm(Tensor(x), Tensor(weight), parameter).backward(dy)
    z = (x + offset)[0]
    r = math.sqrt((z * z).mean() + 1e-6)
    right = weight * dy[0] / r - z / (8 * r**3) * (weight * dy[0] * z).sum()
    as_printed = weight / r * (dy[0] - z / (8 * r**2) * (weight * dy[0] * z).sum())  # eq. 10, with g as dL/dy
    np.testing.assert_allclose(parameter.grad, right, rtol=1e-10)
    assert np.abs(as_printed - right).max() > 0.02
    gradcheck.check(lambda o: ops.offset_rms_norm(Tensor(x), Tensor(weight), o), offset)


# Positions


def test_positions_keep_the_shape_and_tell_places_apart() -> None:
    x = Tensor(np.ones((6, 2, 64)))
    turned = spiral().rotate(x, nn.Layout.rectangular(1, 6)).data
    assert turned.shape == (6, 2, 64)
    assert all(np.abs(turned[p] - turned[0]).max() > 0.1 for p in range(1, 6))


def test_without_a_radius_lengths_are_kept_and_with_one_they_are_not() -> None:
    x, layout = draw(50, 1, 64), nn.Layout(np.array([0, 50]), np.arange(0, 2_000, 40))
    before = np.linalg.norm(x, axis=-1)
    for amplitude, kept in ((0.0, True), (0.1, False)):
        after = np.linalg.norm(spiral(amplitude).rotate(Tensor(x), layout).data, axis=-1)
        assert (np.abs(after / before - 1).max() < 1e-12) == kept


@given(position=st.integers(0, 4_000), divisor=st.sampled_from([1.0, 2.0, 8.0]))
def test_two_windings_are_one_rotation_further_along(position: int, divisor: float) -> None:
    cosine, sine = spiral(0.0, divisor).tables(position + 1, np.dtype(np.float64))
    angles = position * (1 + 1 / divisor) * 10_000.0 ** (-np.arange(0, 64, 2) / 64)
    np.testing.assert_allclose(cosine[position] + 1j * sine[position], np.exp(1j * angles), rtol=0, atol=1e-11)


@pytest.mark.parametrize("position", [0, 1, 2_047])
def test_the_tables_are_the_papers_formulas(position: int) -> None:
    cosine, sine = spiral().tables(position + 1, np.dtype(np.float32))
    for j in range(32):
        omega = 10_000.0 ** (-2 * j / 64)
        angle = position * omega + position * omega / 8
        radius = 1 + 0.1 * math.sin(position * 0.01 * omega)
        # Rounded once, from 64 bits.
        assert cosine[position, j] == pytest.approx(radius * math.cos(angle), abs=1e-7)
        assert sine[position, j] == pytest.approx(radius * math.sin(angle), abs=1e-7)
        assert math.hypot(cosine[position, j], sine[position, j]) == pytest.approx(radius, abs=1e-6)


def test_aligned_pairs_meet_at_an_angle_of_their_distance_times_both_radii() -> None:
    """Eq. 19, which holds for a query and a key that point the same way."""
    cosine, sine = spiral(size=8).tables(301, np.dtype(np.float64))
    omega = 10_000.0 ** (-np.arange(0, 8, 2) / 8)
    for p, q in ((3, 1), (300, 17)):
        radii = [1 + 0.1 * np.sin(place * 0.01 * omega) for place in (p, q)]
        wanted = radii[0] * radii[1] * np.cos((p - q) * omega * 1.125)
        np.testing.assert_allclose(cosine[p] * cosine[q] + sine[p] * sine[q], wanted, rtol=0, atol=1e-12)


def test_the_gradient_of_stretched_pairs() -> None:
    """A turn's transpose is its inverse; that of a turn with a radius is not."""
    angles = SpiralAngles(8, 100.0, divisor=8.0, amplitude=0.9, frequency=1.0)
    layout = nn.Layout(np.array([0, 4]), np.array([0, 1, 5, 300]))
    gradcheck.check(lambda x: angles.rotate(x, layout), draw(4, 2, 8))


# The two streams


def streams(dtype: str = "float64") -> DualStreamFeedForward:
    block = DualStreamFeedForward(8, 4, 12, std=0.5)
    block.initialise(dtype=dtype)
    return block


def test_the_streams_keep_the_shape_and_no_fusion_is_their_average() -> None:
    block, x = streams(), Tensor(draw(5, 8))
    assert block(x).shape == (5, 8)
    block.fusion.weight.data = np.zeros((8, 16))
    a = block.down_a(ops.swiglu(block.gate_a(x), block.up_a(x))).data
    b = block.down_b(ops.gelu(block.up_b(x))).data
    np.testing.assert_allclose(block(x).data, (a + b) / 2, rtol=1e-12)


def test_the_streams_are_their_equations() -> None:
    block, x = streams(), draw(5, 8)
    gate_a, up_a, down_a, up_b, down_b, fusion = (parameter.data.T for parameter in block.parameters())
    wide = x @ up_b
    a = (x @ gate_a / (1 + np.exp(-x @ gate_a)) * (x @ up_a)) @ down_a
    b = (wide / 2 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))) @ down_b
    share = 1 / (1 + np.exp(-np.concatenate([a, b], axis=1) @ fusion))
    np.testing.assert_allclose(block(Tensor(x)).data, share * a + (1 - share) * b, rtol=1e-12, atol=1e-12)


def test_the_gradient_of_the_streams() -> None:
    block, x = streams(), draw(3, 8)

    def run(rows: Tensor, *arrays: Tensor) -> Tensor:
        for parameter, array in zip(block.parameters(), arrays, strict=True):
            parameter._data, parameter.node = array.data, array.node
        return block(rows)  # type: ignore[no-any-return]

    gradcheck.check(run, x, *(parameter.data.copy() for parameter in block.parameters()))
