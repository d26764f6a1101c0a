"""New tensors: float32, with NumPy's names and shapes."""

from __future__ import annotations

import numpy as np

import minigrad


def test_new_tensors_are_float32_and_may_require_a_gradient() -> None:
    made = [minigrad.zeros((2, 3)), minigrad.ones(4), minigrad.randn((2, 3), seed=0), minigrad.arange(0.5, 2.0)]
    assert [tensor.shape for tensor in made] == [(2, 3), (4,), (2, 3), (2,)]
    assert {tensor.dtype for tensor in made} == {np.dtype(np.float32)}
    assert minigrad.arange(4).dtype == np.int64
    assert minigrad.arange(4, dtype="float64").dtype == np.float64
    assert minigrad.ones((), requires_grad=True).requires_grad
    assert not minigrad.zeros(2).data.any()
    assert minigrad.zeros(1, dtype="float64").dtype == np.float64


def test_normal_draws_are_a_function_of_the_seed() -> None:
    a, b, c = (minigrad.randn(2000, seed=seed).data for seed in (0, 0, 1))
    assert (a == b).all()
    assert (a != c).any()
    assert abs(a.mean()) < 0.1
    assert abs(a.std() - 1) < 0.1
