"""A mixture of experts computes the weighted sum of what its experts compute, with any rows and any number of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import Tensor, nn, no_grad
from minigrad.experts.mixture import Experts, balance_loss
from minigrad.nn.layout import Layout
from minigrad.nn.loss_pass import LossPass, computing
from minigrad.typing import Array

WIDTH = 4


def build(count: int, per_token: int, **options: Any) -> Experts:
    """Return a block whose experts differ clearly."""
    block = Experts(WIDTH, count, per_token, lambda: nn.SwiGLUFeedForward(WIDTH, 6, std=0.8, out_std=0.8), **options)
    block.initialise(seed=3, dtype="float64")
    block.gate.weight.data *= 40
    return block


def one_by_one(block: Experts, x: Array) -> Array:
    """Compute the block row by row, as its formula says."""
    y = np.zeros_like(x)
    for t, row in enumerate(x):
        scores = block.gate.weight.data @ row
        p = np.exp(scores - scores.max())
        p /= p.sum()
        chosen = np.argsort(-p, kind="stable")[: block.per_token]
        shares = p[chosen] if block.per_token == 1 else p[chosen] / p[chosen].sum()
        y[t] = sum(g * block.experts[i](Tensor(row[None])).data[0] for g, i in zip(shares, chosen, strict=True))
    return y


sizes = st.integers(1, 5).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count)))


@given(sizes=sizes, rows=st.integers(0, 9), seed=st.integers(0, 99), recording=st.booleans())
@settings(max_examples=25)
def test_a_mixture_is_the_weighted_sum_of_the_experts_of_each_row(
    sizes: tuple[int, int], rows: int, seed: int, recording: bool
) -> None:
    block, x = build(*sizes), np.random.default_rng(seed).normal(size=(rows, WIDTH))
    if recording:
        y = block(Tensor(x))
    else:
        with no_grad():
            y = block(Tensor(x))
    np.testing.assert_allclose(y.data, one_by_one(block, x), rtol=1e-10, atol=1e-12)
    if recording:
        assert block.load.sum() == pytest.approx(min(rows, 1))


def test_every_parameter_of_an_expert_that_nobody_chose_gets_a_gradient_of_zeros() -> None:
    block = build(4, 1)
    block(Tensor(np.ones((3, WIDTH)))).sum().backward()
    chosen = [bool(np.any(expert.down_proj.weight.grad)) for expert in block.experts]
    assert sum(chosen) == 1
    assert all(parameter.has_gradient for parameter in block.parameters())


def test_the_load_is_that_of_the_last_pass_of_training() -> None:
    block, x = build(4, 1), Tensor(np.ones((3, WIDTH)))
    block.gate.weight.data[:] = 0
    block(x)
    assert block.load.tolist() == [1, 0, 0, 0]  # of equal probabilities, that of the first expert counts as larger
    block.gate.weight.data[3] = 1
    with no_grad():
        block(x)
    block.eval()(x)
    assert block.load.tolist() == [1, 0, 0, 0]
    block.train()(x)
    assert block.load.tolist() == [0, 0, 0, 1]


def test_a_token_leaves_all_experts_but_its_own_idle() -> None:
    block = build(5, 2)
    expert = sum(parameter.size for parameter in block.experts[0].parameters())
    assert sum(parameter.size for parameter in block.idle()) == 3 * expert


def test_dropout_acts_on_the_sum_in_training_alone() -> None:
    block, x = build(3, 2, dropout=0.5), np.random.default_rng(0).normal(size=(9, WIDTH))
    expected, found = one_by_one(block, x), block(Tensor(x)).data
    assert 0 < (found == 0).sum() < found.size
    np.testing.assert_allclose(found[found != 0], 2 * expected[found != 0])
    np.testing.assert_allclose(block.eval()(Tensor(x)).data, expected)


def routed(probabilities: Array, per_token: int) -> tuple[Tensor, Array]:
    return Tensor(probabilities), np.argsort(-probabilities, axis=1, kind="stable")[:, :per_token]


def test_a_loss_gets_the_balance_loss_times_its_weight() -> None:
    block, x = build(3, 2, balance=0.25), np.random.default_rng(0).normal(size=(5, WIDTH))
    current = LossPass(Layout.packed([2, 3]), np.arange(5) > 0)
    with computing(current):
        block(Tensor(x))
    scores = np.exp(x @ block.gate.weight.data.T)
    found = routed(scores / scores.sum(axis=1, keepdims=True), 2)
    (added,) = current.added
    assert added.item() == pytest.approx(0.25 * balance_loss(*found, current.counted, current.layout).item())


def test_the_balance_loss_is_1_if_the_load_is_equal_and_the_number_of_experts_if_one_gets_everything() -> None:
    rows, all_rows = Layout.packed([4]), np.ones(4, bool)
    assert balance_loss(*routed(np.eye(4), 1), all_rows, rows).item() == 1.0
    assert balance_loss(*routed(np.tile([1.0, 0.0, 0.0, 0.0], (4, 1)), 1), all_rows, rows).item() == 4.0


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4), seed=st.integers(0, 99), per_token=st.integers(1, 3)
)
@settings(max_examples=20)
def test_the_balance_loss_is_the_formula_in_each_sequence_and_their_mean_by_rows(
    lengths: list[int], seed: int, per_token: int
) -> None:
    rng, layout = np.random.default_rng(seed), Layout.packed(lengths)
    p = rng.dirichlet(np.ones(3), sum(lengths))
    (shares, chosen), counted = routed(p, per_token), rng.random(len(p)) < 0.7
    total = 0.0
    for a, b in itertools.pairwise(layout.offsets):
        rows = np.flatnonzero(counted[a:b]) + a
        if len(rows):
            f = np.bincount(chosen[rows].reshape(-1), minlength=3) / (len(rows) * per_token)
            total += len(rows) * 3 * float(f @ p[rows].mean(axis=0))
    wanted = total / max(counted.sum(), 1)
    assert balance_loss(shares, chosen, counted, layout).item() == pytest.approx(wanted, rel=1e-9)
