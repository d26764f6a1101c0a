"""Muon: orthogonal updates of the chosen matrices, AdamW for the rest, whatever the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import InputError, Tensor, nn
from minigrad.kernels import threads
from minigrad.kernels.gemm import backend, newton_schulz
from minigrad.optim import AdamW, Muon
from minigrad.optim.muon import orthogonalise
from minigrad.system import hardware


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (9, 4), (1, 6)])
def test_the_update_has_the_directions_of_the_matrix_and_singular_values_near_1(shape: tuple[int, int]) -> None:
    u = np.random.default_rng(0).normal(size=shape)
    left, sizes, right = np.linalg.svd(u, full_matrices=False)
    turned = left.T @ orthogonalise(u) @ right.T
    kept = np.diag(turned)[sizes > 0.05 * sizes.max()]
    assert 0.6 < kept.min() <= kept.max() < 1.3
    np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (96, 96), (256, 96), (64, 65), (130, 70), (33, 97)])
def test_the_loops_of_one_kernel_compute_what_the_formula_does(shape: tuple[int, int], monkeypatch: Any) -> None:
    u = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    by_kernel = orthogonalise(u)
    monkeypatch.setattr(newton_schulz, "FLOAT32", None)  # a processor without loops for it
    by_formula, exact = orthogonalise(u), orthogonalise(u.astype(np.float64))
    for found in (by_kernel, by_formula):
        assert found.shape == shape
        assert found.flags.c_contiguous
        np.testing.assert_allclose(found, exact, atol=2e-5)


@pytest.mark.parametrize("shape", [(3, 200), (96, 256), (256, 96), (130, 70), (33, 97)])
def test_in_bfloat16_the_products_are_rounded_with_loops_and_without(shape: tuple[int, int], monkeypatch: Any) -> None:
    u, chosen = np.random.default_rng(0).normal(size=shape).astype(np.float32), backend.in_use()
    exact = orthogonalise(u)
    try:
        backend.use("auto", "bfloat16")
        by_kernel = orthogonalise(u)
        monkeypatch.setattr(newton_schulz, "BFLOAT16", None)
        by_formula = orthogonalise(u)
    finally:
        backend.use(*chosen)
    scale = np.abs(exact).max()
    for found in (by_kernel, by_formula):
        assert 1e-4 * scale < np.abs(found - exact).max() < 0.1 * scale
        sizes = np.linalg.svd(found, compute_uv=False)
        assert 0.2 < sizes.min() <= sizes.max() < 1.3


def test_a_gradient_of_zeros_gives_no_update() -> None:
    assert not orthogonalise(np.zeros((3, 4), np.float32)).any()


@pytest.mark.parametrize("before", [0, 298, 1_000])  # the momentum rises for 300 steps
def test_steps_are_those_of_the_definition(before: int) -> None:
    layers = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 4, bias=False))
    layers.initialise(0, "float64")
    matrix = layers[0].weight
    optimizer = Muon(layers.parameters(), 0.01, matrices=[matrix], weight_decay=0.3)
    rest = [each.data.copy() for each in layers.parameters()]
    others = [Tensor(each, requires_grad=True) for each in rest]
    plain, w, m = AdamW(others, 0.01, weight_decay=0.3), rest[0].copy(), np.zeros((3, 4))
    optimizer.steps = plain.steps = before
    for t in range(before + 1, before + 5):
        for i, (parameter, other) in enumerate(zip(layers.parameters(), others, strict=True)):
            parameter.grad = other.grad = np.random.default_rng([t, i]).normal(size=parameter.shape)
        g = layers[0].weight.grad
        mu = min(0.85 + 0.1 * t / 300, 0.95)
        m = mu * m + (1 - mu) * g
        w = w - 0.01 * (0.2 * 2 * orthogonalise(mu * m + (1 - mu) * g) + 0.3 * w)
        optimizer.step()
        plain.step()
    np.testing.assert_allclose(matrix.data, w, rtol=1e-12)
    for parameter, other in list(zip(layers.parameters(), others, strict=True))[1:]:
        np.testing.assert_allclose(parameter.data, other.data, rtol=1e-12)


def test_the_number_of_threads_does_not_change_an_update(shared_loops: list[int]) -> None:
    def trained(count: int) -> Any:
        threads.set_threads(count)
        layers = nn.Sequential(*(nn.Linear(40, 40) for _ in range(7)))
        layers.initialise(1)
        optimizer = Muon(layers.parameters(), matrices=[layer.weight for layer in layers.layers])
        for index, parameter in enumerate(layers.parameters()):
            parameter.grad = np.random.default_rng(index).normal(size=parameter.shape).astype(np.float32)
        optimizer.step()
        return [parameter.data for parameter in layers.parameters()]

    try:
        assert all(map(np.array_equal, trained(1), trained(3)))
        assert 3 in shared_loops
    finally:
        threads.set_threads(hardware.threads())


def test_what_is_no_matrix_of_its_parameters_is_refused() -> None:
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    for wrong in (layer.bias, other.weight):
        assert wrong is not None
        with pytest.raises(InputError, match="the matrices of Muon have two axes and are among its parameters"):
            Muon(layer.parameters(), matrices=[wrong])
