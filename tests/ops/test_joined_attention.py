"""Attention over two sets of keys: both joined in one softmax, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor, ops
from minigrad.ops.attention import attention_formula
from minigrad.ops.joined_attention import (
    SeenFarKeys,
    SeenKeys,
    attention_with_far_keys_formula,
    attention_with_own_key_formula,
)
from minigrad.ops.visible_keys import causal_visible
from tests import op_checks
from tests.op_table import Array, Case
from tests.ops.test_attention import case_of


def test_without_own_keys_attention_with_own_key_is_attention() -> None:
    case = case_of([3, 4], heads=4, groups=2)
    offsets, own = case.options["offsets"], np.zeros((7, 2, 3))
    ranges = np.stack([offsets[:-1], offsets[1:]], axis=1)
    shared, no_own = SeenKeys(offsets, ranges, np.array([1, 2, 3, 1, 2, 3, 4])), np.zeros(7, bool)
    wanted = attention_formula(*case.arrays, offsets=offsets)
    got = attention_with_own_key_formula(*case.arrays, own, own, shared=shared, has_own=no_own)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    result = ops.attention_with_own_key(*case.arrays, own, own, shared=shared, has_own=no_own)
    np.testing.assert_allclose(result.data, wanted, rtol=1e-11)


def far_case(lengths: list[int], block: int, window: int) -> Case:
    """Return keys of which those outside a window are seen as the means of their blocks."""
    case = case_of(lengths, heads=4, groups=2)
    q, k, v = case.arrays
    offsets, visible = case.options["offsets"], causal_visible(case.options["offsets"])
    first = np.maximum(visible - window, 0) // block * block
    far_k, far_v = (ops.block_mean(Tensor(x), offsets=offsets, block=block).data for x in (k, v))
    ends = np.cumsum(np.diff(offsets) // block)
    near = SeenKeys(offsets, np.stack([offsets[:-1], offsets[1:]], axis=1), visible, first)
    far_ranges = np.stack([ends - np.diff(offsets) // block, ends], axis=1)
    far = SeenFarKeys(far_ranges, first // block, weight=float(block))
    return Case((q, k, v, far_k, far_v), {"near": near, "far": far})


@pytest.mark.parametrize(("lengths", "block", "window"), [([300], 7, 20), ([600, 0, 90], 16, 100), ([40], 64, 1)])
def test_near_and_far_keys_of_sequences_longer_than_a_tile(lengths: list[int], block: int, window: int) -> None:
    case = far_case(lengths, block, window)
    result, _ = op_checks.run(ops.attention_with_far_keys, case)
    wanted = attention_with_far_keys_formula(*case.arrays, **case.options)
    np.testing.assert_allclose(result, wanted, rtol=1e-11, atol=1e-12)
    op_checks.check_gradient(ops.attention_with_far_keys, case)


def test_far_keys_of_blocks_of_equal_keys_give_what_all_keys_give() -> None:
    case = far_case([120], 8, 10)
    q, k, v, _, _ = case.arrays
    k, v = (x[::8].repeat(8, axis=0) for x in (k, v))  # all keys of a block are equal
    given = Case((q, k, v, k[::8].copy(), v[::8].copy()), case.options)
    result, _ = op_checks.run(ops.attention_with_far_keys, given)
    np.testing.assert_allclose(result, attention_formula(q, k, v, offsets=np.array([0, 120])), rtol=1e-11)


def assert_gradients_of_values_keep_their_digits(op: Any, arrays: tuple[Array, ...], options: dict[str, Any]) -> None:
    """Compare large scores in float32 with small ones in float64, for keys that are all equal."""
    _, k, v, more_k, more_v = arrays
    found = []
    for score, dtype in ((1.0, np.float64), (1e4, np.float32), (1e8, np.float32)):
        given = np.full_like(arrays[0], score), np.ones_like(k), v, np.ones_like(more_k), more_v
        result, gradients = op_checks.run(op, Case(tuple(x.astype(dtype) for x in given), options))
        found.append((result, gradients[2], gradients[4]))
    for large in found[1:]:
        for got, wanted in zip(large, found[0], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


def test_with_far_keys_gradients_keep_their_digits_however_large_the_scores_are() -> None:
    case = far_case([120], 8, 10)
    assert_gradients_of_values_keep_their_digits(ops.attention_with_far_keys, case.arrays, case.options)


def test_with_own_keys_gradients_keep_their_digits_however_large_the_scores_are() -> None:
    q, k, v = case_of([40], heads=4, groups=2).arrays
    offsets = np.array([0, 40])
    options = {"shared": SeenKeys(offsets, offsets[None], np.arange(1, 41)), "has_own": np.arange(40) % 3 == 0}
    assert_gradients_of_values_keep_their_digits(ops.attention_with_own_key, (q, k, v, k, v[::-1].copy()), options)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"weight": 0.0}, InputError, r"the weight of a far key takes a finite number of at least 1e-30 and at most"),
        ({"weight": np.inf}, InputError, r"at most 1e\+30, not inf"),
        ({"weight": "2"}, InputError, r"at most 1e\+30, not '2'"),
        ({"visible": np.zeros(3, np.int64)}, ShapeError, r"for each of 4 rows; got \(3,\)"),
        ({"visible": np.array([0, 0, 0, 3])}, ShapeError, "from 0 to the keys of its sequence"),
        ({"ranges": np.array([[0, 5]])}, ShapeError, "within 2 key rows"),
    ],
)
def test_far_keys_that_do_not_fit_are_refused(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    case = far_case([4], 2, 1)
    near, far = case.options["near"], case.options["far"]
    with pytest.raises(error, match=message):
        ops.attention_with_far_keys(*map(Tensor, case.arrays), near=near, far=far._replace(**changes))


@pytest.mark.parametrize(
    ("own_rows", "has_own", "message"),
    [(3, [True, True], r"must be \(2, 1, 3\)"), (2, [True], r"must be \(2, 1, 3\)"), (2, [True, False], "needs a key")],
)
def test_own_keys_that_do_not_fit_are_refused(own_rows: int, has_own: list[bool], message: str) -> None:
    own = Tensor(np.zeros((own_rows, 1, 3)))
    shared = SeenKeys(np.array([0, 2]), np.array([[0, 2]]), visible=np.array([0, 0]))
    with pytest.raises(ShapeError, match=message):
        ops.attention_with_own_key(
            *map(Tensor, case_of([2]).arrays), own, own, shared=shared, has_own=np.array(has_own)
        )


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 0)])
def test_queries_without_heads_or_elements_are_refused(shape: tuple[int, ...]) -> None:
    offsets, visible = np.array([0, 2]), np.array([1, 2])
    near, far = SeenKeys(offsets, offsets[None], visible), SeenFarKeys(offsets[None], np.zeros(2, np.int64), 1.0)
    with pytest.raises(ShapeError):
        ops.attention_with_far_keys(*(np.ones(shape) for _ in range(5)), near=near, far=far)
