"""Dropout: one mask for forward and backward, and a mask that is a function of seed, step and index alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, Tensor, ops
from tests.philox import kept_elements, philox

integers = st.integers(0, 2**32 - 1)


def test_the_reference_philox_gives_the_published_values() -> None:
    # The known answers of the Random123 library (kat_vectors, philox4x32-10).
    zero = philox(np.array([0]), (0, 0), (0, 0))
    assert [hex(word) for word in zero[0]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    ones = philox(np.array([2**64 - 1], np.uint64), (2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1))
    assert [hex(word) for word in ones[0]] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]


@given(step=integers, index=integers, seed=st.integers(0, 2**70), probability=st.floats(0, 0.99))
def test_the_mask_is_a_function_of_seed_step_and_index(step: int, index: int, seed: int, probability: float) -> None:
    x = Tensor(np.ones((5, 7)), requires_grad=True)
    options = {"probability": probability, "seed": seed, "step": step, "index": index}
    y = ops.dropout(x, **options)
    mask = kept_elements((5, 7), **options)
    np.testing.assert_allclose(y.data, mask / (1 - probability))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tobytes() == y.data.tobytes()  # forward and backward multiply by the same mask


def test_seed_step_and_index_each_change_the_mask() -> None:
    def mask(**options: int) -> bytes:
        return ops.dropout(Tensor(np.ones(200)), probability=0.5, **options).data.tobytes()

    masks = [mask(), mask(seed=1), mask(step=1), mask(index=1)]
    assert len(set(masks)) == 4
    assert mask(seed=3, step=2) == mask(seed=3, step=2)


@given(rows=st.integers(1, 6), cut=st.integers(0, 6), width=st.integers(0, 9))
def test_the_parts_of_a_batch_are_dropped_as_the_whole_is(rows: int, cut: int, width: int) -> None:
    x, cut = np.arange(1.0, rows * width + 1).reshape(rows, width), min(cut, rows)
    options: dict[str, Any] = {"probability": 0.5, "seed": 3, "step": 4, "index": 5}
    whole = ops.dropout(Tensor(x), **options).data
    first, second = ops.dropout(Tensor(x[:cut]), **options), ops.dropout(Tensor(x[cut:]), first_row=cut, **options)
    assert np.concatenate([first.data, second.data]).tobytes() == whole.tobytes()


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_the_rate_is_the_probability_and_the_mean_stays(probability: float) -> None:
    y = ops.dropout(Tensor(np.ones(100_000)), probability=probability).data
    deviation = np.sqrt(probability * (1 - probability) / y.size)
    assert abs((y == 0).mean() - probability) < 5 * deviation
    assert abs(y.mean() - 1) < 5 * deviation / (1 - probability)


def test_neighbours_are_dropped_independently() -> None:
    kept = ops.dropout(Tensor(np.ones(100_000)), probability=0.5).data > 0
    for distance in (1, 2, 3, 4, 8):
        agreement = (kept[distance:] == kept[:-distance]).mean()
        assert abs(agreement - 0.5) < 0.01


def test_probability_zero_changes_nothing() -> None:
    x = np.random.default_rng(0).normal(size=20)
    assert ops.dropout(Tensor(x), probability=0.0).data.tobytes() == x.tobytes()


@pytest.mark.parametrize("probability", [1.0, -0.1, float("nan")])
def test_impossible_probabilities_are_refused(probability: float) -> None:
    with pytest.raises(InputError, match="at least 0 and below 1"):
        ops.dropout(Tensor([1.0]), probability=probability)
