"""Sparse attention: the choice, sequences longer than a tile, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor
from minigrad.autograd.gradients import saved_arrays
from minigrad.ops.attention import attention_formula
from models.vsla.operations.sparse_attention import sparse_attention, sparse_attention_formula
from tests import op_checks
from tests.op_table import Case
from tests.ops.test_attention import case_of


@pytest.mark.parametrize(("lengths", "top_k"), [([300], 7), ([600, 0, 90], 33), ([40], 1)])
def test_sequences_longer_than_a_tile(lengths: list[int], top_k: int) -> None:
    case = case_of(lengths, heads=4, groups=2)
    case.options["top_k"] = top_k
    result, _ = op_checks.run(sparse_attention, case)
    np.testing.assert_allclose(result, sparse_attention_formula(*case.arrays, **case.options), rtol=1e-11, atol=1e-12)
    op_checks.check_gradient(sparse_attention, case)


@pytest.mark.parametrize("top_k", [50, 10**6])
def test_with_all_keys_chosen_it_is_attention(top_k: int) -> None:
    case = case_of([50], heads=2)
    result = sparse_attention(*map(Tensor, case.arrays), offsets=np.array([0, 50]), top_k=top_k)
    np.testing.assert_allclose(result.data, attention_formula(*case.arrays, offsets=np.array([0, 50])), rtol=1e-11)


def test_of_equal_scores_the_earlier_keys_are_chosen() -> None:
    q, k, v = np.zeros((5, 1, 1)), np.ones((5, 1, 1)), np.arange(5.0).reshape(5, 1, 1)
    result = sparse_attention(q, k, v, offsets=np.array([0, 5]), top_k=2)
    assert result.data.ravel().tolist() == [0.0, 0.5, 0.5, 0.5, 0.5]


def test_a_later_key_changes_no_earlier_output() -> None:
    q, k, v = case_of([200]).arrays
    options: dict[str, Any] = {"offsets": np.array([0, 200]), "top_k": 5}
    before = sparse_attention(Tensor(q), Tensor(k), Tensor(v), **options).data
    k[120:] *= 1e3
    after = sparse_attention(Tensor(q), Tensor(k), Tensor(v), **options).data
    assert after[:120].tobytes() == before[:120].tobytes()
    assert (after[120:] != before[120:]).any()


def test_keys_that_no_query_chooses_have_no_gradient() -> None:
    case = Case(case_of([400]).arrays, {"offsets": np.array([0, 400]), "top_k": 3})
    _, gradients = op_checks.run(sparse_attention, case)
    assert gradients[1] is not None
    assert 0 < (gradients[1] == 0).all(axis=(1, 2)).sum() < 400


def test_the_memory_is_that_of_the_chosen_keys() -> None:
    q, k, v = (Tensor(array, requires_grad=True) for array in case_of([400], heads=2, size=3).arrays)
    out = sparse_attention(q, k, v, offsets=np.array([0, 400]), top_k=3)
    assert out.node is not None
    assert out.node.backward is not None
    sizes = [array.size for array in saved_arrays(out.node.backward)]
    assert max(sizes) == 400 * 2 * 3  # rows x heads x chosen keys, as many as elements of the queries


def test_slices_of_one_array_are_copied_once_and_not_kept() -> None:
    qkv = Tensor(np.random.default_rng(0).normal(size=(5, 3, 2, 4)), requires_grad=True)
    out = sparse_attention(*(qkv[:, part] for part in range(3)), offsets=np.array([0, 5]), top_k=2)
    assert out.node is not None
    assert out.node.backward is not None
    stored = [array for array in saved_arrays(out.node.backward) if array.ndim > 1]
    assert not any(np.shares_memory(array, qkv.data) for array in stored)


@pytest.mark.parametrize("top_k", [0, -3])
def test_no_keys_at_all_are_refused(top_k: int) -> None:
    with pytest.raises(InputError, match=f"top_k of sparse_attention takes a whole number of at least 1, not {top_k}"):
        sparse_attention(*map(Tensor, case_of([2]).arrays), offsets=np.array([0, 2]), top_k=top_k)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="rise from 0 to rows"):
        sparse_attention(*map(Tensor, case_of([2]).arrays), offsets=np.array([0, 3]), top_k=1)
