"""Dropout: one mask for both directions, and a mask that is a function of its numbers only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, Tensor, ops
from tests.kernels.rowwise.draw_twins import philox
from tests.op_table import dropout_mask

numbers = st.integers(0, 2**32 - 1)


def test_philox_gives_the_published_numbers() -> None:
    # The known answers of the Random123 library (kat_vectors, philox4x32-10).
    zero = philox(np.array([0]), (0, 0), (0, 0))
    assert [hex(word) for word in zero[0]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    ones = philox(np.array([2**64 - 1], np.uint64), (2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1))
    assert [hex(word) for word in ones[0]] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]


@given(step=numbers, index=numbers, seed=st.integers(0, 2**70), probability=st.floats(0, 0.99))
def test_the_mask_is_a_function_of_seed_step_and_index(step: int, index: int, seed: int, probability: float) -> None:
    x = Tensor(np.ones((5, 7)), requires_grad=True)
    options = {"probability": probability, "seed": seed, "step": step, "index": index}
    y = ops.dropout(x, **options)
    mask = dropout_mask((5, 7), **options)
    np.testing.assert_allclose(y.data, mask / (1 - probability))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tobytes() == y.data.tobytes()  # the gradient passes through the same holes


def test_seed_step_and_index_each_matter() -> None:
    def mask(**options: int) -> bytes:
        return ops.dropout(Tensor(np.ones(200)), probability=0.5, **options).data.tobytes()

    masks = [mask(), mask(seed=1), mask(step=1), mask(index=1)]
    assert len(set(masks)) == 4
    assert mask(seed=3, step=2) == mask(seed=3, step=2)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_rate_and_expected_value(probability: float) -> None:
    y = ops.dropout(Tensor(np.ones(100_000)), probability=probability).data
    spread = np.sqrt(probability * (1 - probability) / y.size)
    assert abs((y == 0).mean() - probability) < 5 * spread
    assert abs(y.mean() - 1) < 5 * spread / (1 - probability)


def test_neighbours_do_not_fall_together() -> None:
    kept = ops.dropout(Tensor(np.ones(100_000)), probability=0.5).data > 0
    for distance in (1, 2, 3, 4, 8):
        agreement = (kept[distance:] == kept[:-distance]).mean()
        assert abs(agreement - 0.5) < 0.01


def test_probability_zero_changes_nothing() -> None:
    x = np.random.default_rng(0).normal(size=20)
    assert ops.dropout(Tensor(x), probability=0.0).data.tobytes() == x.tobytes()


@pytest.mark.parametrize("probability", [1.0, -0.1, float("nan")])
def test_impossible_probabilities(probability: float) -> None:
    with pytest.raises(InputError, match="at least 0 and below 1"):
        ops.dropout(Tensor([1.0]), probability=probability)
