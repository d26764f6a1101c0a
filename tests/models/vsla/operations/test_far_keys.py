"""Attention to far keys: joined in one softmax with the near keys, their means, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor
from minigrad.autograd.gradients import saved_arrays
from minigrad.ops.attention import attention_formula
from minigrad.ops.joined_attention import SeenKeys
from minigrad.ops.visible_keys import causal_visible
from models.vsla.operations.far_keys import (
    SeenFarKeys,
    attention_with_far_keys,
    attention_with_far_keys_formula,
    block_mean,
)
from tests import op_checks
from tests.op_table import Case
from tests.ops.test_attention import case_of
from tests.ops.test_joined_attention import assert_gradients_of_values_keep_their_digits


def far_case(lengths: list[int], block: int, window: int) -> Case:
    """Return keys of which those outside a window are seen as the means of their blocks."""
    case = case_of(lengths, heads=4, groups=2)
    q, k, v = case.arrays
    offsets, visible = case.options["offsets"], causal_visible(case.options["offsets"])
    first = np.maximum(visible - window, 0) // block * block
    far_k, far_v = (block_mean(Tensor(x), offsets=offsets, block=block).data for x in (k, v))
    ends = np.cumsum(np.diff(offsets) // block)
    near = SeenKeys(offsets, np.stack([offsets[:-1], offsets[1:]], axis=1), visible, first)
    far_ranges = np.stack([ends - np.diff(offsets) // block, ends], axis=1)
    far = SeenFarKeys(far_ranges, first // block, weight=float(block))
    return Case((q, k, v, far_k, far_v), {"near": near, "far": far})


@pytest.mark.parametrize(("lengths", "block", "window"), [([300], 7, 20), ([600, 0, 90], 16, 100), ([40], 64, 1)])
def test_near_and_far_keys_of_sequences_longer_than_a_tile(lengths: list[int], block: int, window: int) -> None:
    case = far_case(lengths, block, window)
    result, _ = op_checks.run(attention_with_far_keys, case)
    wanted = attention_with_far_keys_formula(*case.arrays, **case.options)
    np.testing.assert_allclose(result, wanted, rtol=1e-11, atol=1e-12)
    op_checks.check_gradient(attention_with_far_keys, case)


def test_far_keys_of_blocks_of_equal_keys_give_what_all_keys_give() -> None:
    case = far_case([120], 8, 10)
    q, k, v, _, _ = case.arrays
    k, v = (x[::8].repeat(8, axis=0) for x in (k, v))  # all keys of a block are equal
    given = Case((q, k, v, k[::8].copy(), v[::8].copy()), case.options)
    result, _ = op_checks.run(attention_with_far_keys, given)
    np.testing.assert_allclose(result, attention_formula(q, k, v, offsets=np.array([0, 120])), rtol=1e-11)


def test_with_far_keys_gradients_keep_their_digits_however_large_the_scores_are() -> None:
    case = far_case([120], 8, 10)
    assert_gradients_of_values_keep_their_digits(attention_with_far_keys, case.arrays, case.options)


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
        attention_with_far_keys(*map(Tensor, case.arrays), near=near, far=far._replace(**changes))


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 0)])
def test_queries_without_heads_or_elements_are_refused(shape: tuple[int, ...]) -> None:
    offsets, visible = np.array([0, 2]), np.array([1, 2])
    near, far = SeenKeys(offsets, offsets[None], visible), SeenFarKeys(offsets[None], np.zeros(2, np.int64), 1.0)
    with pytest.raises(ShapeError):
        attention_with_far_keys(*(np.ones(shape) for _ in range(5)), near=near, far=far)


def test_the_rows_themselves_are_not_kept() -> None:
    x = Tensor(np.ones((6, 3)), requires_grad=True)
    means = block_mean(x * 2, offsets=np.array([0, 6]), block=2)
    assert means.node is not None
    assert means.node.backward is not None
    assert all(array.dtype == np.int64 for array in saved_arrays(means.node.backward))


@pytest.mark.parametrize(
    ("offsets", "block", "error", "message"),
    [
        ([0, 4], 0, InputError, "block of block_mean takes a whole number of at least 1, not 0"),
        ([0, 5], 2, ShapeError, r"offsets that rise from 0 to rows; got \(4, 3\), \[0 5\]"),
        ([0, 3, 2, 4], 2, ShapeError, "offsets that rise"),
        ([], 2, ShapeError, "offsets that rise"),
    ],
)
def test_blocks_and_offsets_that_do_not_fit_are_refused(
    offsets: list[int], block: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        block_mean(Tensor(np.zeros((4, 3))), offsets=np.array(offsets), block=block)
