"""Rotary positions: products depend on differences of positions alone, and norms are preserved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import ShapeError, Tensor, ops
from minigrad.ops.rotary import rotary_formula
from tests import op_cases
from tests.op_table import Array, Case

positions = st.integers(0, 1000)


@given(op_cases.rotary())
def test_the_formula_is_a_product_of_complex_numbers(case: Case) -> None:
    (x,), half = case.arrays, case.arrays[0].shape[2] // 2
    interleaved = case.options["interleaved"]
    pairs = x[..., ::2] + 1j * x[..., 1::2] if interleaved else x[..., :half] + 1j * x[..., half:]
    factors = case.options["cosine"] + 1j * case.options["sine"]
    rotated = pairs * factors[case.options["positions"]][:, None]
    wanted = np.stack([rotated.real, rotated.imag], axis=-1 if interleaved else -2).reshape(x.shape)
    np.testing.assert_allclose(rotary_formula(x, **case.options), wanted, rtol=1e-12, atol=1e-12)


def rotated(x: Array, position: int) -> Array:
    angles = np.outer(np.arange(position + 1), 10_000.0 ** (-np.arange(0, 8, 2) / 8))
    return ops.rotary(Tensor(x), cosine=np.cos(angles), sine=np.sin(angles), positions=np.array([position])).data


@given(q_position=positions, k_position=positions, shift=positions, seed=st.integers(0, 99))
def test_products_depend_on_the_distance_alone(q_position: int, k_position: int, shift: int, seed: int) -> None:
    q, k = np.random.default_rng(seed).normal(size=(2, 1, 2, 8))
    near = (rotated(q, q_position) * rotated(k, k_position)).sum(axis=-1)
    far = (rotated(q, q_position + shift) * rotated(k, k_position + shift)).sum(axis=-1)
    np.testing.assert_allclose(near, far, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(rotated(q, q_position), axis=-1), np.linalg.norm(q, axis=-1))


def test_tables_and_positions_that_do_not_fit_are_refused() -> None:
    tables = {"cosine": np.ones((4, 3)), "sine": np.zeros((4, 3))}
    with pytest.raises(ShapeError, match="positions 0 to 3, not for 0 to 4"):
        ops.rotary(Tensor(np.zeros((2, 1, 6))), positions=np.array([0, 4]), **tables)
    with pytest.raises(ShapeError, match=r"\(4, 3\) and \(2, 3\)"):
        ops.rotary(Tensor(np.zeros((1, 1, 6))), positions=np.array([3]), **tables | {"sine": np.zeros((2, 3))})
    with pytest.raises(ShapeError, match=r"\(2, 1, 8\)"):
        ops.rotary(Tensor(np.zeros((2, 1, 8))), positions=np.array([0, 1]), **tables)
    with pytest.raises(ShapeError, match="positions of rotary must be integers, not float64"):
        ops.rotary(Tensor(np.zeros((1, 1, 6))), positions=np.array([0.9]), **tables)


def test_positions_may_be_a_list() -> None:
    x = np.arange(8.0).reshape(2, 1, 4)
    angles = np.outer(np.arange(3), [1.0, 0.1])
    tables = {"cosine": np.cos(angles), "sine": np.sin(angles)}
    as_list = ops.rotary(Tensor(x), positions=[2, 1], **tables)
    np.testing.assert_array_equal(as_list.data, ops.rotary(Tensor(x), positions=np.array([2, 1]), **tables).data)
