"""The moving average of weights: the weighted mean of all weights so far, and put in their place for a while."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, nn
from minigrad.kernels import threads
from minigrad.optim import WeightAverage, average


@given(
    decay=st.sampled_from([0.0, 0.5, 0.9, 0.999]),
    steps=st.integers(1, 8),
    seed=st.integers(0, 99),
    together=st.sampled_from([4, average._TOGETHER]),  # several pieces, the last one shorter, or one
)
def test_the_average_is_the_weighted_mean_of_the_weights_after_each_step(
    decay: float, steps: int, seed: int, together: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(average, "_TOGETHER", together)
        check_average(decay, steps, seed)


def check_average(decay: float, steps: int, seed: int) -> None:
    layers = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 4).freeze(), nn.Linear(4, 1))
    layers.initialise(0, "float64")
    mean, rng, seen = WeightAverage(layers.parameters(), decay), np.random.default_rng(seed), []
    trained = [each for each in layers.parameters() if each.requires_grad]
    for step in range(1, steps + 1):
        for parameter in trained:
            parameter.data = rng.normal(size=parameter.shape)
        seen.append([parameter.data.copy() for parameter in trained])
        mean.update(step)
    counts = [decay ** (steps - step) for step in range(1, steps + 1)]
    for index, found in enumerate(mean.values()):
        wanted = sum(count * weights[index] for count, weights in zip(counts, seen, strict=True)) / sum(counts)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-14)


@pytest.mark.usefixtures("_restore_pool")
def test_threads_share_the_pieces(shared_loops: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(average, "_TOGETHER", 4)
    found = set[bytes]()
    for count in (1, 2, 3):
        threads.set_threads(count)
        layer = nn.Linear(7, 5)
        layer.initialise(0)
        mean = WeightAverage(layer.parameters(), 0.5)
        for step in (1, 2, 3):
            layer.weight.data = layer.weight.data + step
            mean.update(step)
        with mean.in_place():
            found.add(layer.weight.data.tobytes())
    assert len(found) == 1
    assert {2, 3} <= {*shared_loops}


def test_the_average_takes_the_place_of_the_weights_inside_the_block_only() -> None:
    layer = nn.Conv1D(3, 2)
    kept = WeightAverage(layer.parameters(), 0.5)
    kept.update(1)
    before, mean = layer.weight.data.copy(), kept.values()[0].copy()
    layer.weight.data = before + 1
    copied = layer.lines()
    with kept.in_place(), kept.in_place():
        np.testing.assert_array_equal(layer.weight.data, mean)
        np.testing.assert_array_equal(layer.lines(), mean.T)  # a copy of the matrix is made again
    np.testing.assert_array_equal(layer.weight.data, before + 1)
    np.testing.assert_array_equal(layer.lines(), copied)
    np.testing.assert_array_equal(kept.values()[0], mean)


@pytest.mark.parametrize("decay", [1.0, -0.1, 2.0, np.nan, "0.9"])
def test_a_decay_outside_its_range_is_refused(decay: Any) -> None:
    with pytest.raises(InputError, match=r"the decay of an average of weights .* at least 0 and below 1"):
        WeightAverage(nn.Linear(1, 1).parameters(), decay)


def test_a_copy_would_be_that_of_other_memory_and_is_refused() -> None:
    model = nn.Linear(3, 4)
    mean = WeightAverage(model.parameters(), 0.5)
    with pytest.raises(InputError, match="has no copy; make one of the copies"):
        copy.deepcopy((model, mean))
