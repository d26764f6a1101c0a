"""Attention of shape (..., T, D): its formula, with every kind of mask and with shared keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, ShapeError, Tensor, gradcheck, ops
from minigrad.ops.softmax import softmax_formula
from minigrad.typing import Array


def formula(q: Array, k: Array, v: Array, mask: Array | None, is_causal: bool) -> Array:
    if q.shape[:-2] != k.shape[:-2]:
        k, v = (part.repeat(q.shape[-3] // k.shape[-3], axis=-3) for part in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if is_causal:
        past = scores.shape[-1] - scores.shape[-2]
        scores = np.where(np.tri(*scores.shape[-2:], past, dtype=bool), scores, -np.inf)
    return softmax_formula(scores) @ v


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Array], Array | None, bool]:
    lead = draw(st.sampled_from([(), (1,), (0,), (2,), (2, 3), (1, 2, 2)]))
    shared = draw(st.sampled_from([1, 2])) if lead else 1
    is_causal = draw(st.booleans())
    length, size = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    num_keys = length + draw(st.integers(0 if is_causal else 1 - length, 3))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    heads = (*lead[:-1], lead[-1] * shared) if lead else ()
    arrays = [rng.normal(size=(*heads, length, size)), *rng.normal(size=(2, *lead, num_keys, size))]
    shape = draw(st.sampled_from([(length, num_keys), (1, num_keys), (*heads, length, num_keys), (*heads, length, 1)]))
    masks: list[Any] = [None, rng.random(shape) < 0.7, rng.normal(size=shape)]
    return arrays, draw(st.sampled_from(masks)), is_causal


@given(cases())
def test_it_is_its_formula_and_has_its_gradient(case: tuple[list[Array], Array | None, bool]) -> None:
    arrays, mask, is_causal = case

    def attention(*tensors: Tensor) -> Tensor:
        added = tensors[3] if len(tensors) > 3 else mask
        return ops.scaled_dot_product_attention(*tensors[:3], mask=added, is_causal=is_causal)

    np.testing.assert_allclose(attention(*map(Tensor, arrays)).data, formula(*arrays, mask, is_causal), atol=1e-12)
    learned = [mask] if mask is not None and mask.dtype != bool else []
    gradcheck.check(attention, *arrays, *learned)


def test_a_query_that_sees_no_key_gives_zero_and_has_no_gradient() -> None:
    x = Tensor(np.ones((2, 2), np.float32), requires_grad=True)
    y = ops.scaled_dot_product_attention(x, x, x, mask=[[False, False], [True, True]])
    assert y.tolist() == [[0, 0], [1, 1]]
    y.sum().backward()
    assert x.grad is not None
    assert np.isfinite(x.grad).all()


def test_arrays_are_accepted_and_float32_stays_float32() -> None:
    x = np.ones((1, 2, 3, 4), np.float32)
    for options in ({"mask": np.zeros((3, 3))}, {"mask": np.ones((3, 3), bool)}, {"is_causal": True}, {}):
        assert ops.scaled_dot_product_attention(Tensor(x), Tensor(x), Tensor(x), **options).dtype == np.float32


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ([(2, 3), (2, 4), (2, 4)], {}, r"needs q \(\.\.\., T, D\).*got \(2, 3\), \(2, 4\) and \(2, 4\)"),
        ([(3, 2, 4), (2, 2, 4), (2, 2, 4)], {}, "a number that divides the number of heads of q"),
        ([(2, 3), (2, 3), (3, 3)], {}, "needs q"),
        ([(4,), (4,), (4,)], {}, "needs q"),
        ([(3, 4), (2, 4), (2, 4)], {"is_causal": True}, "a key for each of 3 queries; there are 2"),
        ([(3, 4), (2, 4), (2, 4)], {"mask": np.ones((3, 3), bool)}, r"mask of shape \(3, 3\) does not broadcast"),
        ([(3, 4), (2, 4), (2, 4)], {"mask": np.ones((2, 3, 2), bool)}, "does not broadcast to the scores"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: Any, options: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        ops.scaled_dot_product_attention(*(Tensor(np.ones(shape)) for shape in shapes), **options)


def test_a_mask_of_integers_is_refused_because_it_could_mean_both() -> None:
    x = Tensor(np.ones((2, 2)))
    with pytest.raises(InputError, match=r"holds booleans .* not int64; use mask != 0"):
        ops.scaled_dot_product_attention(x, x, x, mask=[[0, 1], [1, 1]])


def test_heads_without_elements_are_refused() -> None:
    with pytest.raises(ShapeError, match="and D at least 1"):
        ops.scaled_dot_product_attention(*(np.ones((2, 0)) for _ in range(3)))
