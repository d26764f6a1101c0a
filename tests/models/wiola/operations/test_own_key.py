"""Attention with a key of its own for a row: joined in one softmax with the shared keys, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import ShapeError, Tensor
from minigrad.ops.attention import attention_formula
from minigrad.ops.joined_attention import SeenKeys
from models.wiola.operations.own_key import attention_with_own_key, attention_with_own_key_formula
from tests.ops.test_attention import case_of
from tests.ops.test_joined_attention import assert_gradients_of_values_keep_their_digits


def test_without_own_keys_attention_with_own_key_is_attention() -> None:
    case = case_of([3, 4], heads=4, groups=2)
    offsets, own = case.options["offsets"], np.zeros((7, 2, 3))
    ranges = np.stack([offsets[:-1], offsets[1:]], axis=1)
    shared, no_own = SeenKeys(offsets, ranges, np.array([1, 2, 3, 1, 2, 3, 4])), np.zeros(7, bool)
    wanted = attention_formula(*case.arrays, offsets=offsets)
    got = attention_with_own_key_formula(*case.arrays, own, own, shared=shared, has_own=no_own)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    result = attention_with_own_key(*case.arrays, own, own, shared=shared, has_own=no_own)
    np.testing.assert_allclose(result.data, wanted, rtol=1e-11)


def test_with_own_keys_gradients_keep_their_digits_however_large_the_scores_are() -> None:
    q, k, v = case_of([40], heads=4, groups=2).arrays
    offsets = np.array([0, 40])
    options = {"shared": SeenKeys(offsets, offsets[None], np.arange(1, 41)), "has_own": np.arange(40) % 3 == 0}
    assert_gradients_of_values_keep_their_digits(attention_with_own_key, (q, k, v, k, v[::-1].copy()), options)


@pytest.mark.parametrize(
    ("own_rows", "has_own", "message"),
    [(3, [True, True], r"must be \(2, 1, 3\)"), (2, [True], r"must be \(2, 1, 3\)"), (2, [True, False], "needs a key")],
)
def test_own_keys_that_do_not_fit_are_refused(own_rows: int, has_own: list[bool], message: str) -> None:
    own = Tensor(np.zeros((own_rows, 1, 3)))
    shared = SeenKeys(np.array([0, 2]), np.array([[0, 2]]), visible=np.array([0, 0]))
    with pytest.raises(ShapeError, match=message):
        attention_with_own_key(*map(Tensor, case_of([2]).arrays), own, own, shared=shared, has_own=np.array(has_own))
