"""Prefix means of long sequences, whole and in parts; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import ShapeError, Tensor
from models.wiola.operations.prefix_mean import prefix_mean
from tests.op_table import Array


def means(x: Array, carried: Array | None = None, counts: Array | None = None) -> Array:
    """Return the prefix means of one sequence."""
    return prefix_mean(Tensor(x), offsets=np.array([0, len(x)]), carried=carried, counts=counts).data


@given(cuts=st.sets(st.integers(1, 699), max_size=9), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_a_sequence_in_parts_gives_what_the_whole_gives(cuts: set[int], seed: int) -> None:
    x = np.random.default_rng(seed).normal(1, 1, (700, 3)).astype(np.float32)
    parts, carried, count = [], np.zeros((1, 3)), 0
    for part in np.split(x, sorted(cuts)):
        parts.append(means(part, carried, np.array([count])))
        carried, count = carried + part.sum(axis=0, dtype=np.float64), count + len(part)
    np.testing.assert_allclose(np.concatenate(parts), means(x), rtol=2e-7)


def test_a_long_sequence_keeps_its_digits() -> None:
    # The error of a running sum in float32 would be 100 times larger.
    x = np.random.default_rng(0).normal(1, 1, (200_000, 1)).astype(np.float32)
    exact = np.cumsum(x.astype(np.float64), axis=0) / np.arange(1, len(x) + 1)[:, None]
    np.testing.assert_allclose(means(x)[-1000:], exact[-1000:], rtol=1e-7)


def test_the_gradient_of_a_long_sequence_keeps_its_digits() -> None:
    # Position i receives the sum of 1/j over j from i on, a difference of harmonic numbers.
    x = Tensor(np.zeros((200_000, 1), np.float32), requires_grad=True)
    prefix_mean(x, offsets=np.array([0, x.shape[0]])).sum().backward()
    exact = np.cumsum(1 / np.arange(x.shape[0], 0, -1.0))[::-1]
    assert x.grad is not None
    np.testing.assert_allclose(x.grad[:, 0], exact, rtol=1e-7)


@pytest.mark.parametrize("offsets", [[], [1, 4], [0, 3], [0, 5], [0, 3, 2, 4]])
def test_offsets_that_do_not_fit_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ShapeError, match=r"offsets that rise from 0 to rows; got \(4, 2\)"):
        prefix_mean(Tensor(np.zeros((4, 2))), offsets=np.array(offsets, np.int64))


@pytest.mark.parametrize(
    ("offsets", "counts", "message"),
    [
        ([0, 4], [1.5], "counts of prefix_mean must be integers, not float64"),
        ([0, 4], [-1], r"numbers of earlier rows, at least 0; got \[-1\]"),
        ([0, 1.9, 4], [0, 0], "offsets that rise from 0 to rows"),
    ],
)
def test_numbers_of_rows_that_are_no_counts_are_refused(offsets: Any, counts: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        prefix_mean(Tensor(np.zeros((4, 2))), offsets=np.array(offsets), counts=np.array(counts))


@pytest.mark.parametrize("options", [{"carried": np.zeros((2, 2))}, {"counts": np.zeros(2, np.int64)}])
def test_a_past_that_does_not_fit_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ShapeError, match=r"carried \(1, 2\) and counts \(1,\)"):
        prefix_mean(Tensor(np.zeros((4, 2))), offsets=np.array([0, 4]), **options)


def test_offsets_and_counts_of_any_integers_are_those_of_the_call() -> None:
    """The caller may change its own before the backward pass."""
    gradients = []
    for dtype, changes in ((np.int64, False), (np.int64, True), (np.uint64, True), (np.int32, True)):
        x = Tensor(np.arange(12.0).reshape(6, 2), requires_grad=True)
        offsets, counts = np.array([0, 2, 6], dtype), np.array([1, 2], dtype)
        y = prefix_mean(x, offsets=offsets, counts=counts)
        if changes:
            offsets[1] = counts[1] = 5
        (y * y).sum().backward()
        assert x.grad is not None
        gradients.append(x.grad.tolist())
    assert gradients[1:] == gradients[:1] * 3
