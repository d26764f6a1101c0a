"""Attention to a few keys of a row's own: a single key, large scores, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import ShapeError, Tensor
from minigrad.ops.attention import attention_formula
from models.wiola.operations.context_attention import context_attention, context_attention_formula


def draw(dtype: Any, *shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return Tensor((np.random.default_rng(seed).normal(size=shape) * scale).astype(dtype), requires_grad=True)


def test_each_row_attends_as_a_sequence_of_its_own() -> None:
    q, k, v = (
        draw(np.float64, *shape, seed=number).data for number, shape in enumerate([(5, 4, 8), *[(5, 3, 2, 8)] * 2])
    )
    found = context_attention_formula(q, k, v)
    for row in range(5):
        options = {"offsets": np.array([0, 1]), "key_ranges": np.array([[0, 3]])}
        np.testing.assert_allclose(found[row], attention_formula(q[[row]], k[row], v[row], **options)[0], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_only_key_has_probability_one(dtype: Any) -> None:
    q, k, v = draw(dtype, 5, 4, 8), draw(dtype, 5, 1, 2, 8, seed=1), draw(dtype, 5, 1, 2, 8, seed=2)
    y = context_attention(q, k, v)
    assert y.data.tobytes() == np.repeat(v.data[:, 0], 2, axis=1).tobytes()
    y.sum().backward()
    for each in (q, k):
        assert each.grad is not None
        assert not each.grad.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_scores_choose_one_key(dtype: Any) -> None:
    q, k, v = (draw(dtype, 5, *shape, scale=1e4) for shape in ((4, 8), (3, 2, 8), (3, 2, 8)))
    y = context_attention(q, k, v)
    keys, values = (np.repeat(x.data, 2, axis=2) for x in (k, v))  # (rows, L, H, D)
    best = np.einsum("rhd,rlhd->rhl", q.data, keys).argmax(axis=-1)
    np.testing.assert_array_equal(y.data, np.take_along_axis(values, best[:, None, :, None], axis=1)[:, 0])
    y.sum().backward()
    assert q.grad is not None
    assert np.isfinite(q.grad).all()


@pytest.mark.parametrize(
    ("q", "k", "message"),
    [
        ((2, 8), (2, 1, 2, 8), r"got \(2, 8\)"),
        ((3, 4, 8), (2, 1, 2, 8), r"got \(3, 4, 8\)"),
        ((2, 4, 6), (2, 1, 2, 8), r"got \(2, 4, 6\)"),
        ((2, 4, 8), (2, 0, 2, 8), r"\(2, 0, 2, 8\)"),
        ((2, 4, 8), (2, 1, 3, 8), "4 query heads cannot share 3 key/value heads"),
        ((2, 4, 8), (2, 1, 0, 8), "4 query heads cannot share 0"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(q: tuple[int, ...], k: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        context_attention(Tensor(np.zeros(q)), Tensor(np.zeros(k)), Tensor(np.zeros(k)))


def test_heads_without_elements_are_refused() -> None:
    with pytest.raises(ShapeError, match="where L and D are at least 1"):
        context_attention(np.ones((2, 1, 0)), np.ones((2, 1, 1, 0)), np.ones((2, 1, 1, 0)))
