"""Losses of single rows and their weights: every weighting of the rows is one operation, in any number of chunks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import ShapeError, Tensor, no_grad, ops
from minigrad.autograd.graph import GraphError

Array = NDArray[Any]

module: Any = sys.modules["minigrad.ops.cross_entropy"]  # in the package, the function has that name


def arrays(rows: int, dtype: Any = np.float64, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    x, weight, given = (rng.normal(size=shape).astype(dtype) for shape in ((rows, 3), (5, 3), (rows,)))
    return x, weight, rng.choice([-100, 0, 1, 2, 3, 4], rows), given


def gradients(x: Array, weight: Array, loss: Any) -> list[Array]:
    """Return [loss, dx, dw] of a scalar function of rows and matrix."""
    rows, matrix = Tensor(x, requires_grad=True), Tensor(weight, requires_grad=True)
    value = loss(rows, matrix)
    value.backward()
    return [value.data, np.asarray(rows.grad), np.asarray(matrix.grad)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(rows=st.integers(0, 7), chunk=st.integers(1, 40), seed=st.integers(0, 99))
def test_the_loss_of_each_row_is_that_of_its_formula(dtype: Any, rows: int, chunk: int, seed: int) -> None:
    x, weight, targets, _ = arrays(rows, dtype, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LOGITS_AT_ONCE", chunk)
        losses = ops.linear_losses(x, weight, targets).data
    assert losses.dtype == dtype
    assert not losses[targets == -100].any()
    wanted = module.linear_losses_formula(x, weight, targets)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)


@given(rows=st.integers(0, 7), chunk=st.integers(1, 40), seed=st.integers(0, 99))
def test_weights_of_rows_and_a_weighted_sum_of_their_losses_are_the_same(rows: int, chunk: int, seed: int) -> None:
    x, weight, targets, given_weights = arrays(rows, seed=seed)
    count = max((targets != -100).sum(), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LOGITS_AT_ONCE", chunk)
        fused = gradients(x, weight, lambda h, w: ops.linear_cross_entropy(h, w, targets, given_weights))
        by_row = gradients(
            x, weight, lambda h, w: (ops.linear_losses(h, w, targets) * given_weights).sum() * (1 / count)
        )
    for one, other in zip(fused, by_row, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_of_one_change_no_bit(dtype: Any) -> None:
    x, weight, targets, _ = arrays(9, dtype)
    plain = gradients(x, weight, lambda h, w: ops.linear_cross_entropy(h, w, targets))
    ones = gradients(x, weight, lambda h, w: ops.linear_cross_entropy(h, w, targets, np.ones(9, dtype)))
    assert [each.tobytes() for each in plain] == [each.tobytes() for each in ones]


def test_the_gradient_of_a_weight_is_the_loss_of_its_row() -> None:
    x, weight, targets, given_weights = arrays(6)
    row_weights = Tensor(given_weights, requires_grad=True)
    ops.linear_cross_entropy(x, weight, targets, row_weights).backward()
    wanted = module.linear_losses_formula(x, weight, targets) / (targets != -100).sum()
    np.testing.assert_allclose(np.asarray(row_weights.grad), wanted, rtol=1e-12)


def test_weights_of_another_shape_are_refused() -> None:
    x, weight, targets, _ = arrays(4)
    with pytest.raises(ShapeError, match=r"row_weights \(4,\), not \(3,\)"):
        ops.linear_cross_entropy(x, weight, targets, np.ones(3))


def test_a_change_between_the_two_passes_is_noticed() -> None:
    """Backward computes the logits a second time, so they must still be the same."""
    x, weight, targets, _ = arrays(4)
    matrix = Tensor(weight, requires_grad=True)
    total = ops.linear_losses(x, matrix, targets).sum()
    with no_grad():
        matrix[...] = 0.0
    with pytest.raises(GraphError, match="changed"):
        total.backward()
