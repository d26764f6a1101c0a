"""The FLOPs that a profile counts for each operation with matrix products, and for whole models."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import Tensor, no_grad, ops
from minigrad.autograd.profile import Profile
from minigrad.ops.joined_attention import SeenKeys
from minigrad.typing import Array
from models.vsla.operations.far_keys import SeenFarKeys, attention_with_far_keys
from models.vsla.operations.sparse_attention import sparse_attention
from models.wiola.operations.context_attention import context_attention
from models.wiola.operations.own_key import attention_with_own_key
from tests.autograd.profiles import backward, leaf, profiled
from tests.models.tiny import build, tokens

sides = st.integers(1, 4)


def flops_of(measured: Profile, name: str) -> list[float]:
    return [measured.lines[name, phase].flops for phase in ("forward", "backward")]


@given(lead=st.lists(sides, max_size=2), inputs=sides, outputs=sides)
def test_linear_is_one_product_forward_and_two_backward(lead: list[int], inputs: int, outputs: int) -> None:
    measured = profiled(lambda: backward(ops.linear(leaf(*lead, inputs), leaf(outputs, inputs))))
    product = sum(2 for _ in np.ndindex(*lead, inputs, outputs))
    assert flops_of(measured, "linear") == [product, 2 * product]


@pytest.mark.parametrize(
    ("a", "b", "products"),  # the number of multiplications
    [
        ((3, 4), (4, 5), 60),
        ((4,), (4, 5), 20),
        ((3, 4), (4,), 12),
        ((4,), (4,), 4),
        ((2, 3, 4), (4, 5), 120),
        ((2, 3, 4), (2, 4, 5), 120),
        ((3, 4), (7, 4, 5), 420),
        ((2, 1, 3, 4), (7, 4, 5), 840),
        ((2, 3, 4), (4,), 24),
        ((4,), (7, 4, 5), 140),
        ((3, 0), (0, 5), 0),
    ],
)
def test_a_matrix_product_of_any_shape(a: tuple[int, ...], b: tuple[int, ...], products: int) -> None:
    measured = profiled(lambda: backward(ops.matmul(leaf(*a), leaf(*b))))
    assert flops_of(measured, "matmul") == [2 * products, 4 * products]


def test_attention_to_contexts_counts_scores_and_values_of_every_context() -> None:
    contexts = leaf(8, 2, 2, 16), leaf(8, 2, 2, 16)
    measured = profiled(lambda: backward(context_attention(leaf(8, 4, 16), *contexts)))
    assert flops_of(measured, "context_attention") == [4 * 8 * 4 * 2 * 16, 2 * 4 * 8 * 4 * 2 * 16]


def test_swiglu_linear_counts_the_product_after_the_gate() -> None:
    measured = profiled(lambda: backward(ops.swiglu_linear(leaf(6, 4), leaf(6, 4), leaf(5, 4))))
    assert flops_of(measured, "swiglu_linear") == [2 * 6 * 4 * 5, 4 * 6 * 4 * 5]


def test_the_loss_computes_its_gradients_in_the_forward_pass_if_they_are_needed() -> None:
    x, weight, targets = leaf(6, 4), leaf(9, 4), np.arange(6)
    product = 2 * 6 * 4 * 9
    measured = profiled(lambda: ops.linear_cross_entropy(x, weight, targets).backward())
    assert flops_of(measured, "linear_cross_entropy") == [3 * product, 0]
    with no_grad():
        measured = profiled(lambda: ops.linear_cross_entropy(x, weight, targets))
    assert measured.lines["linear_cross_entropy", "forward"].flops == product
    measured = profiled(lambda: ops.linear_losses(x, weight, targets).sum().backward())
    assert flops_of(measured, "linear_losses") == [product, 3 * product]


def attention_pairs(offsets: Array, ranges: Array | None, visible: Array | None) -> int:
    """Count the keys that each query sees, one by one."""
    pairs = 0
    for s, (first, last) in enumerate(itertools.pairwise(offsets)):
        keys = last - first if ranges is None else ranges[s, 1] - ranges[s, 0]
        for row in range(first, last):
            pairs += int(visible[row]) if visible is not None else int(keys - (last - 1 - row))
    return pairs


@pytest.mark.parametrize(
    ("ranges", "visible"),
    [
        (None, None),
        (np.array([[0, 5], [5, 5], [6, 14]]), None),  # as with a cache: three older keys, none, two
        (np.array([[0, 5], [5, 5], [6, 14]]), np.array([0, 5, 0, 2, 2, 8, 8, 8])),
    ],
)
def test_attention_is_two_products_for_each_pair_of_a_query_and_a_key_it_sees(ranges: Any, visible: Any) -> None:
    offsets, (heads, groups, size) = np.array([0, 2, 2, 8]), (6, 2, 4)
    keys = (14, groups, size) if ranges is not None else (8, groups, size)
    options = {"offsets": offsets, "key_ranges": ranges, "visible": visible}
    measured = profiled(lambda: backward(ops.attention(leaf(8, heads, size), leaf(*keys), leaf(*keys), **options)))
    product = 2 * attention_pairs(offsets, ranges, visible) * heads * size
    # Backward: the scores again, and the gradients of probabilities, values, queries and keys.
    assert flops_of(measured, "attention") == [2 * product, 5 * product]


def test_an_own_key_counts_as_one_more_key() -> None:
    offsets, visible, has_own = np.array([0, 3, 5]), np.array([0, 1, 2, 1, 1]), np.array([1, 0, 1, 0, 1], bool)
    arrays = [leaf(5, 4, 2), *(leaf(5, 2, 2) for _ in range(4))]
    shared = SeenKeys(offsets, np.array([[0, 3], [3, 5]]), visible)
    measured = profiled(lambda: backward(attention_with_own_key(*arrays, shared=shared, has_own=has_own)))
    product = 2 * (5 + 3) * 4 * 2
    assert flops_of(measured, "attention_with_own_key") == [2 * product, 5 * product]


def test_keys_before_a_window_do_not_count_and_far_keys_do() -> None:
    offsets, ranges = np.array([0, 3, 5]), np.array([[0, 3], [3, 5]])
    seen = SeenKeys(offsets, ranges, visible=np.array([1, 2, 3, 1, 2]), first_visible=np.array([0, 1, 2, 0, 1]))
    near = [leaf(5, 4, 2), leaf(5, 2, 2), leaf(5, 2, 2)]
    measured = profiled(lambda: backward(ops.attention(*near, **seen._asdict())))
    assert flops_of(measured, "attention") == [2 * 2 * 5 * 4 * 2, 5 * 2 * 5 * 4 * 2]
    seen_far = SeenFarKeys(np.array([[0, 2], [2, 3]]), visible=np.array([0, 1, 2, 0, 1]), weight=1.0)
    far = leaf(3, 2, 2), leaf(3, 2, 2)
    measured = profiled(lambda: backward(attention_with_far_keys(*near, *far, near=seen, far=seen_far)))
    assert flops_of(measured, "attention_with_far_keys") == [2 * 2 * 9 * 4 * 2, 5 * 2 * 9 * 4 * 2]


def test_choosing_keys_computes_all_scores() -> None:
    arrays = [leaf(5, 4, 2), leaf(5, 2, 2), leaf(5, 2, 2)]
    measured = profiled(lambda: backward(sparse_attention(*arrays, offsets=np.array([0, 3, 5]), top_k=2)))
    assert flops_of(measured, "sparse_attention") == [2 * 9 * 4 * 2, 0]


def test_a_forward_pass_without_a_gradient_has_no_line_for_backward() -> None:
    x, weight = Tensor(np.ones((3, 4), np.float32)), Tensor(np.ones((5, 4), np.float32))
    measured = profiled(lambda: ops.linear(x, weight))
    assert set(measured.lines) == {("linear", "forward")}
    with no_grad():
        measured = profiled(lambda: ops.linear(leaf(3, 4), leaf(5, 4)))
    assert set(measured.lines) == {("linear", "forward")}


def test_recomputed_layers_are_two_forward_passes_and_one_backward_pass() -> None:
    model, ids = build("gpt2"), tokens(0, 2, 9)

    def count() -> Profile:
        return profiled(lambda: model.loss(ids, ids).backward())

    stored = count()
    model.recompute_layers()
    recomputed = count()
    for name in ("linear", "attention"):
        once, twice = flops_of(stored, name)
        assert flops_of(recomputed, name) == [2 * once, twice]
    assert flops_of(recomputed, "linear_cross_entropy") == flops_of(stored, "linear_cross_entropy")


def test_the_flops_of_a_model_are_those_that_the_plan_estimates() -> None:
    model, (batch, length) = build("vidya-v2", context_length=64), (2, 64)
    ids = tokens(0, batch, length)
    measured = profiled(lambda: model.loss(ids, ids).backward())
    total = sum(line.flops for line in measured.lines.values())
    # The plan counts half the context for each position, and backward as twice the forward pass. Here each position
    # also sees itself, and the scores are computed again.
    attention = 4 * batch * length * (length + 1) / 2 * 2 * 4 * 4
    planned = 6 * (model.macs_per_token(length) - 2 * 2 * 4 * 4 * length / 2) * batch * length
    assert total == pytest.approx(planned + 3.5 * attention)


def test_a_product_for_a_frozen_factor_is_not_counted() -> None:
    frozen, rows = Tensor(np.ones((5, 4), np.float32)), Tensor(np.ones((3, 4), np.float32))
    product = 2 * 3 * 4 * 5
    for x, weight in ((leaf(3, 4), frozen), (rows, leaf(5, 4))):
        measured = profiled(lambda x=x, weight=weight: backward(ops.linear(x, weight)))
        assert flops_of(measured, "linear") == [product, product]
    measured = profiled(lambda: backward(ops.swiglu_linear(leaf(3, 4), leaf(3, 4), frozen)))
    assert flops_of(measured, "swiglu_linear") == [product, product]
