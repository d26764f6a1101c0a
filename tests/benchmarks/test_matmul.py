"""The products of a training step are noted as the step computes them, and compared in the same layout."""

from __future__ import annotations

import pytest

from benchmarks import matmul
from minigrad.kernels.cpu import FLOAT32
from minigrad.kernels.gemm import backend

pytestmark = pytest.mark.skipif(FLOAT32 is None, reason="our loops have no block for this processor")


def test_a_step_has_the_products_of_its_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "CASES", {"nano": (1, 40)})
    before = backend._set_part
    found, replicas = matmul.products_of_step("nano")
    assert backend._set_part is before
    assert replicas == 1
    forward, gradient_of_weight = (
        matmul.Product(40, 96, 240, False, True),
        matmul.Product(240, 40, 96, True, False),
    )
    assert found[forward] == found[gradient_of_weight] == 2 * 6  # gate and up in six layers
    for product in found:
        left, right, out = product.arrays()
        assert (left @ right).shape == out.shape == (product.rows, product.columns)
        assert (left.flags.c_contiguous, right.flags.c_contiguous) == (
            not product.left_transposed,
            not product.right_transposed,
        )
        assert left.shape[1] == product.depth


@pytest.mark.parametrize("replicas", [1, 2])
def test_both_take_turns(replicas: int) -> None:
    seconds = matmul.compare(matmul.Product(40, 96, 256, False, True), replicas, rounds=1)
    assert set(seconds) == {"BLAS", "ours"}
    assert min(seconds.values()) > 0
