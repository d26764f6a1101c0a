"""Attention beyond the small cases of the table: long sequences, a past, extreme scores, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import InputError, ShapeError, Tensor, ops
from minigrad.autograd.gradients import saved_arrays
from minigrad.ops.attention import attention_formula
from minigrad.ops.visible_keys import causal_visible
from tests import op_checks
from tests.op_table import Array, Case

both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def case_of(lengths: list[int], heads: int = 2, groups: int = 1, size: int = 3, seed: int = 0) -> Case:
    rng, offsets = np.random.default_rng(seed), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = int(offsets[-1])
    arrays = (rng.normal(size=(rows, n, size)) for n in (heads, groups, groups))
    return Case(tuple(arrays), {"offsets": offsets})


def test_the_formula_is_the_textbook_sum_one_query_and_head_at_a_time() -> None:
    q, k, v = case_of([5], heads=4, groups=2).arrays
    found = attention_formula(q, k, v, offsets=np.array([0, 5]))
    for t in range(5):
        for head in range(4):
            scores = [float(q[t, head] @ k[u, head // 2]) / math.sqrt(3) for u in range(t + 1)]
            total = math.fsum(math.exp(score) for score in scores)
            wanted = sum(math.exp(score) / total * v[u, head // 2] for u, score in enumerate(scores))
            np.testing.assert_allclose(found[t, head], wanted, rtol=1e-12)


def test_slices_of_one_array_are_copied_once_for_both_passes() -> None:
    qkv = Tensor(np.random.default_rng(0).normal(size=(5, 3, 2, 4)), requires_grad=True)
    out = ops.attention(*(qkv[:, part] for part in range(3)), offsets=np.array([0, 5]))
    assert out.node is not None
    assert out.node.backward is not None
    assert all(array.flags.c_contiguous for array in saved_arrays(out.node.backward))


@pytest.mark.parametrize("lengths", [[129], [300], [96, 97, 0, 260], [255, 1, 256], [513]])
@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (3, 1), (4, 2)])
def test_sequences_longer_than_a_tile(lengths: list[int], heads: int, groups: int) -> None:
    case = case_of(lengths, heads, groups)
    result, _ = op_checks.run(ops.attention, case)
    np.testing.assert_allclose(result, attention_formula(*case.arrays, **case.options), rtol=1e-11, atol=1e-12)


def value_and_gradients(case: Case, dtype: Any) -> list[Array]:
    tensors = [Tensor(x.astype(dtype), requires_grad=True) for x in case.arrays]
    y = ops.attention(*tensors, **case.options)
    y.backward(np.cos(np.arange(y.size)).reshape(y.shape).astype(dtype))
    return [y.data, *(t.grad for t in tensors if t.grad is not None)]


@pytest.mark.parametrize("size", [31, 33, 48, 64, 80, 128])
@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (3, 1)])
def test_heads_of_any_size_in_float32(size: int, heads: int, groups: int) -> None:
    case = case_of([45, 300], heads, groups, size)
    for got, wanted in zip(value_and_gradients(case, np.float32), value_and_gradients(case, np.float64), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5 * max(1.0, np.abs(wanted).max()))


@both_types
@pytest.mark.parametrize("score", [-50.0, -90.0, -200.0, 200.0])
def test_equal_scores_far_from_zero_give_the_mean(dtype: Any, score: float) -> None:
    """The padding of a panel of queries has scores of its own, which must not enter the sums of real queries."""
    q, k = np.full((3, 1, 1), score), np.ones((3, 1, 1))
    v = np.arange(3.0).reshape(3, 1, 1)
    got = value_and_gradients(Case((q, k, v), {"offsets": np.array([0, 3])}), dtype)
    np.testing.assert_allclose(got[0].ravel(), [0, 0.5, 1.0], atol=1e-6)
    assert all(np.isfinite(x).all() for x in got)


@both_types
@pytest.mark.parametrize("score", [-1e8, 1e3, 1e5, 1e8])
@pytest.mark.parametrize("groups", [1, 2])
def test_gradients_keep_their_digits_however_large_the_scores_are(dtype: Any, score: float, groups: int) -> None:
    q, k, v = case_of([300], heads=2, groups=groups, size=1).arrays
    found = []
    for each, kind in ((1.0, np.float64), (score, dtype)):  # all keys are equal
        case = Case((np.full_like(q, each), np.ones_like(k), v), {"offsets": np.array([0, 300])})
        y, dq, dk, dv = value_and_gradients(case, kind)
        found.append((y, dq, dk / each, dv))
    p = np.tri(300) / np.arange(1, 301)[:, None]
    dy = np.cos(np.arange(600)).reshape(300, groups, 2 // groups)
    np.testing.assert_allclose(found[1][3][..., 0], np.einsum("tu,tgh->ug", p, dy), rtol=0, atol=1e-5)
    for wanted, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("lengths", [[200], [130, 0, 97]])
def test_gradient_across_tiles(lengths: list[int]) -> None:
    op_checks.check_gradient(ops.attention, case_of(lengths, heads=4, groups=2))


@given(past=st.integers(0, 200), new=st.integers(1, 140), seed=st.integers(0, 99))
@settings(max_examples=10)
def test_queries_with_a_past_give_what_the_whole_sequence_gives(past: int, new: int, seed: int) -> None:
    whole = case_of([past + new], seed=seed)
    q, k, v = whole.arrays
    everything, _ = op_checks.run(ops.attention, whole)
    spare = np.full((3, *k.shape[1:]), np.nan)  # rows of a cache that must not be read
    keys, values = (np.concatenate([spare, x, spare]) for x in (k, v))
    ranges = np.array([[3, 3 + past + new]])
    result = ops.attention(
        Tensor(q[past:]), Tensor(keys), Tensor(values), offsets=np.array([0, new]), key_ranges=ranges
    )
    np.testing.assert_allclose(result.data, everything[past:], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("length", [5, 200])
def test_a_later_key_changes_no_earlier_output(length: int) -> None:
    q, k, v = case_of([length]).arrays
    options = {"offsets": np.array([0, length])}
    before = ops.attention(Tensor(q), Tensor(k), Tensor(v), **options).data
    for t in (1, length // 2, length - 1):
        changed_k, changed_v = k.copy(), v.copy()
        changed_k[t:] += 1e3
        changed_v[t:] -= 1e3
        after = ops.attention(Tensor(q), Tensor(changed_k), Tensor(changed_v), **options).data
        assert after[:t].tobytes() == before[:t].tobytes()
        assert (after[t:] != before[t:]).all()


@pytest.mark.parametrize("window", [1, 40, 300])
def test_with_a_window_a_query_sees_the_newest_keys_only(window: int) -> None:
    case = case_of([400, 0, 90], heads=4, groups=2)
    first = np.maximum(causal_visible(case.options["offsets"]) - window, 0)
    local = Case(case.arrays, case.options | {"first_visible": first})
    result, _ = op_checks.run(ops.attention, local)
    np.testing.assert_allclose(result, attention_formula(*local.arrays, **local.options), rtol=1e-11, atol=1e-12)
    op_checks.check_gradient(ops.attention, local)


def test_sequences_do_not_see_each_other() -> None:
    q, k, v = case_of([3, 4]).arrays
    together = ops.attention(Tensor(q), Tensor(k), Tensor(v), offsets=np.array([0, 3, 7])).data
    alone = ops.attention(Tensor(q[3:]), Tensor(k[3:]), Tensor(v[3:]), offsets=np.array([0, 4])).data
    assert together[3:].tobytes() == alone.tobytes()


@both_types
def test_huge_scores_choose_the_value_of_the_largest(dtype: Any) -> None:
    q, k, v = (x.astype(dtype) for x in case_of([150], heads=1).arrays)
    huge = dtype(1e4)
    result, gradients = op_checks.run(ops.attention, Case((q * huge, k * huge, v), {"offsets": np.array([0, 150])}))
    scores = np.where(np.tri(150, dtype=bool), q[:, 0].astype(float) @ k[:, 0].astype(float).T, -np.inf)
    chosen = np.eye(150)[scores.argmax(axis=1)]  # (queries, keys): the probabilities
    np.testing.assert_allclose(result[:, 0], chosen @ v[:, 0], rtol=1e-4)
    assert all(np.isfinite(gradient).all() for gradient in gradients if gradient is not None)
    np.testing.assert_allclose(gradients[2][:, 0], chosen.T @ op_checks.weights((150, 3)), rtol=0, atol=1e-4)


def test_keys_of_no_sequence_get_no_gradient() -> None:
    q, k, v = case_of([2]).arrays
    keys, values = np.concatenate([k, k]), np.concatenate([v, v])
    options = {"offsets": np.array([0, 2]), "key_ranges": np.array([[1, 3]])}
    _, (_, dk, dv) = op_checks.run(ops.attention, Case((q, keys, values), options))
    assert dk is not None
    assert dv is not None
    for gradient in (dk, dv):
        assert (gradient[[0, 3]] == 0).all()
        assert (gradient[1:3] != 0).any()


def test_a_dropout_of_one_is_refused() -> None:
    with pytest.raises(InputError, match=r"at least 0 and below 1, not 1\.0"):
        ops.attention(*map(Tensor, case_of([2]).arrays), offsets=np.array([0, 2]), dropout=1.0)


def test_heads_without_elements_are_refused() -> None:
    empty = np.ones((2, 1, 0), np.float32)
    with pytest.raises(ShapeError, match=r"attention needs q"):
        ops.attention(empty, empty, empty, offsets=np.array([0, 2]))
