"""The share of a process: its runs, its moments, and updates that together are those of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import nn, ops
from minigrad.errors import RunError, ShapeError
from minigrad.optim import SGD, AdamW, Muon, Optimizer
from tests.distributed.rooms import Room, together


def network() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(3, 4), ops.tanh, nn.Linear(4, 4), nn.Linear(4, 2))
    model.initialise(0, "float64")
    return model


def make(kind: str, model: nn.Sequential) -> Optimizer:
    if kind == "SGD":
        return SGD(model.parameters(), lr=0.1, momentum=0.9)
    if kind == "Muon":
        return Muon(model.parameters(), lr=0.1, matrices=[model[0].weight, model[2].weight])
    return AdamW(model.parameters(), lr=0.1)


def trained(kind: str, world: Room | None = None) -> tuple[list[Any], list[Any], list[int]]:
    """Return weights and moments after three steps, clipped, in which process r has every r-th row of the data."""
    model = network()
    optimizer = make(kind, model)
    if world is not None:
        optimizer.divide_among(world)
    rank, size = (world.rank, world.size) if world else (0, 1)
    for step in range(3):
        x = np.random.default_rng(step).normal(size=(2, 3))[rank::size]
        if len(x):
            (model(x) ** 2).sum().backward()
        optimizer.step(max_norm=0.5)
        optimizer.zero_grad()
    kept = [len(moment) for part in optimizer._parts for moment in part.moments]
    return [p.data.copy() for p in model.parameters()], [m for pair in optimizer.moments() for m in pair], kept


@pytest.mark.parametrize("kind", ["AdamW", "Muon", "SGD"])
@pytest.mark.parametrize("size", [2, 3])
def test_processes_together_take_the_steps_of_one(kind: str, size: int) -> None:
    """Of three processes, the last one has no data and computes no gradient."""
    weights, moments, kept = trained(kind)
    found = together(size, lambda world: trained(kind, world))
    assert sum(sum(each[2]) for each in found) == sum(kept)
    for each in found:
        assert [w.tobytes() for w in each[0]] == [w.tobytes() for w in found[0][0]]
        assert max(each[2]) < max(kept)
    for one, other in zip([*weights, *moments], [*found[0][0], *found[0][1]], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12)
    assert found[1][1] == []


def test_a_matrix_that_is_orthogonalised_is_not_cut() -> None:
    def cuts(world: Room) -> list[list[int]]:
        optimizer = make("Muon", network())
        optimizer.divide_among(world)
        return [part.cuts for part in optimizer._parts]

    # Matrices of 12 and 16 elements with orthogonal updates, one of 8 without, and the 10 of the vectors.
    assert together(2, cuts)[0] == [[0, 12, 28], [0, 4, 8], [0, 5, 10]]


def test_moments_are_loaded_into_the_shares() -> None:
    given = [
        [np.full(p.shape, index + 10 * kind) for kind in range(2)] for index, p in enumerate(network().parameters())
    ]

    def load(world: Room) -> list[Any]:
        optimizer = make("AdamW", network())
        optimizer.divide_among(world)
        optimizer.load_moments(given)
        return [[moment.tolist() for moment in pair] for pair in optimizer.moments()]

    found = together(3, load)
    assert found[0] == [[moment.tolist() for moment in pair] for pair in given]


@pytest.mark.parametrize("kind", ["AdamW", "Muon", "SGD"])
def test_a_state_is_loaded_into_the_shares(kind: str) -> None:
    alone = make(kind, network())
    state = {name: np.full(array.shape, number + 1) for number, (name, array) in enumerate(alone.state_dict().items())}

    def load(world: Room) -> dict[str, Any]:
        optimizer = make(kind, network())
        optimizer.divide_among(world)
        optimizer.load_state_dict(state)
        with pytest.raises(ShapeError, match=r"missing \['0"):
            optimizer.load_state_dict({"steps": 0})
        return {name: array.tolist() for name, array in optimizer.state_dict().items()}

    first, *others = together(3, load)
    assert first == {name: array.tolist() for name, array in state.items()}
    assert others == [{"steps": 1}] * 2


def test_what_is_divided_stays_as_it_is() -> None:
    def freeze(world: Room) -> None:
        model = network()
        optimizer = make("AdamW", model)
        optimizer.divide_among(world)
        model[0].freeze()
        with pytest.raises(RunError, match="neither frozen nor given other memory"):
            optimizer.step()
        optimizer.steps = 1
        with pytest.raises(RunError, match="before its first step, not after 1"):
            optimizer.divide_among(world)

    together(2, freeze)
