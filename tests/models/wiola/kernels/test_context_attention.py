"""Attention of each row to its own keys: probabilities, one key, and no rows."""

from __future__ import annotations

import numpy as np
import pytest

from models.wiola.kernels.context_attention import context_attention_backward, context_attention_forward
from tests.models.wiola.kernels.context_twins import context_attention


def _inputs(rows: int, keys: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    return [rng.normal(size=shape) for shape in ((rows, 4, 3), (rows, keys, 2, 3), (rows, keys, 2, 3))]


@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (7, 3), (40, 5)])
def test_the_wrapper_gives_the_plain_formula(rows: int, keys: int) -> None:
    inputs = _inputs(rows, keys)
    y, probabilities = context_attention_forward(*inputs, 0.5)
    attended, found = context_attention(*inputs, 0.5)
    np.testing.assert_allclose(y, attended, rtol=1e-10)
    np.testing.assert_allclose(probabilities.reshape(rows, 4, keys), found, rtol=1e-10)


def test_one_key_gets_all_the_probability_and_no_gradient() -> None:
    q, k, v = _inputs(6, 1)
    y, probabilities = context_attention_forward(q, k, v, 0.5)
    assert (probabilities == 1).all()
    np.testing.assert_array_equal(y, np.repeat(v[:, 0], 2, axis=1))
    dq, dk, dv = context_attention_backward(np.ones_like(y), q, k, v, probabilities, 0.5)
    assert not dq.any()
    assert not dk.any()
    assert (dv == 2).all()  # two query heads share each key/value head


def test_no_rows_give_empty_results_of_the_same_shapes() -> None:
    q, k, v = _inputs(0, 3)
    y, probabilities = context_attention_forward(q, k, v, 0.5)
    gradients = context_attention_backward(y, q, k, v, probabilities, 0.5)
    assert [each.shape for each in gradients] == [q.shape, k.shape, v.shape]
