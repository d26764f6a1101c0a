"""What optimizers share: groups with settings of their own, weight decay of vectors, and a state to save."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minigrad import ShapeError, Tensor, nn, ops, optim
from minigrad.formats.safetensors import read_tensors, save_tensors
from minigrad.optim import SGD, AdamW, Muon, Optimizer

MAKE: dict[str, Callable[[Any], Optimizer]] = {
    "AdamW": lambda parameters: AdamW(parameters, lr=0.1),
    "SGD": lambda parameters: SGD(parameters, lr=0.1, momentum=0.9),
}
every_kind = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


def network(seed: int = 0) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(3, 4), ops.tanh, nn.Linear(4, 2))
    model.initialise(seed)
    return model


def take_steps(model: nn.Sequential, optimizer: Optimizer, first: int, last: int, **options: Any) -> None:
    for step in range(first, last):
        x = np.random.default_rng(step).normal(size=(5, 3)).astype(np.float32)
        optimizer.zero_grad()
        (model(x) ** 2).sum().backward()
        optimizer.step(**options)


def weights(model: nn.Module) -> list[bytes]:
    return [parameter.data.tobytes() for parameter in model.parameters()]


@every_kind
def test_a_saved_state_continues_bit_for_bit(make: Callable[[Any], Optimizer], tmp_path: Path) -> None:
    whole, stopped, continued = network(), network(), network(1)
    take_steps(whole, make(whole.parameters()), 0, 6)
    optimizer = make(stopped.parameters())
    take_steps(stopped, optimizer, 0, 3)
    save_tensors(tmp_path / "state.safetensors", optimizer.state_dict())
    stopped.save_weights(tmp_path / "weights.safetensors")
    continued.load_weights(tmp_path / "weights.safetensors")
    optimizer = make(continued.parameters())
    optimizer.load_state_dict(read_tensors(tmp_path / "state.safetensors"))
    assert optimizer.steps == 3
    take_steps(continued, optimizer, 3, 6)
    assert weights(continued) == weights(whole)


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    model = network()
    optimizer = AdamW(model.parameters())
    take_steps(model, optimizer, 0, 1)
    state = {name: array.copy() for name, array in optimizer.state_dict().items()}
    assert list(state)[:3] == ["steps", "0.m", "0.v"]
    with pytest.raises(ShapeError, match=r"missing \['0\.m'\], unknown \['extra'\]"):
        optimizer.load_state_dict({**{name: 0 * each for name, each in state.items() if name != "0.m"}, "extra": 1})
    with pytest.raises(ShapeError, match=r"0\.v has shape \(1,\), but the optimizer needs \(4, 3\)"):
        optimizer.load_state_dict({**state, "steps": 0, "0.v": np.zeros(1)})
    for name, array in optimizer.state_dict().items():
        np.testing.assert_array_equal(array, state[name])


def test_groups_have_rates_and_decays_of_their_own() -> None:
    grouped, slow, fast = network(), network(), network()
    groups = [
        {"params": grouped[0].parameters(), "lr": 0.01, "weight_decay": 0.0},
        {"params": grouped[2].parameters(), "decay_vectors": True},
    ]
    optimizers = [
        AdamW(groups, lr=0.1, weight_decay=0.5),
        AdamW(slow.parameters(), lr=0.01, weight_decay=0.0),
        AdamW(fast.parameters(), lr=0.1, weight_decay=0.5, decay_vectors=True),
    ]
    for optimizer in optimizers:
        for scale in (1.0, 0.5):  # a schedule halves all rates
            for parameter in optimizer.parameters:
                parameter.grad = np.full(parameter.shape, scale, np.float32)
            optimizer.step(lr=scale * optimizer.lr)
    assert weights(grouped[0]) == weights(slow[0])
    assert weights(grouped[2]) == weights(fast[2])
    assert weights(grouped[0]) != weights(fast[0])


def test_vectors_are_decayed_only_if_wanted() -> None:
    for decayed in (False, True):
        bias = Tensor([1.0], requires_grad=True)
        bias.grad = np.zeros(1, np.float32)
        AdamW([bias], lr=0.1, weight_decay=0.5, decay_vectors=decayed).step()
        assert bias.item() == pytest.approx(0.95 if decayed else 1.0)


def test_a_frozen_part_keeps_its_weights_and_has_no_state() -> None:
    model = network()
    model[0].freeze()
    frozen = weights(model[0])
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.5)
    take_steps(model, optimizer, 0, 2)
    assert weights(model[0]) == frozen
    assert list(optimizer.state_dict()) == ["steps", "2.velocity", "3.velocity"]


def test_schedules_by_hand() -> None:
    model = network()
    optimizer = AdamW(model.parameters())
    for step in range(3):
        take_steps(model, optimizer, step, step + 1, lr=optim.warmup_cosine(step, peak=0.1, warmup=1, steps=3))
    assert optimizer.steps == 3


def test_the_base_does_not_update() -> None:
    w = Tensor([1.0], requires_grad=True)
    w.grad = np.ones(1, np.float32)
    with pytest.raises(TypeError, match="Optimizer has no update"):
        Optimizer([w], lr=1.0, weight_decay=0.0, decay_vectors=False).step()


@pytest.mark.parametrize("make", [*MAKE.values(), lambda parameters: Muon(parameters, matrices=[parameters[0]])])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
@pytest.mark.parametrize("placed", [True, False])
def test_a_copied_optimizer_trains_the_copied_model(make: Any, again: Any, placed: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))  # without a function, which cannot be pickled
    if placed:
        model.initialise(0)
    optimizer = make(model.parameters())
    take_steps(model, optimizer, 0, 3, lr=0.01)
    copied, its_optimizer = again((model, optimizer))
    for each, of_each in ((model, optimizer), (copied, its_optimizer)):
        take_steps(each, of_each, 3, 6, lr=0.01)
    assert its_optimizer.steps == 6
    for ours, theirs in zip(model.parameters(), copied.parameters(), strict=True):
        np.testing.assert_array_equal(ours.data, theirs.data)
        assert not np.shares_memory(ours.data, theirs.data)
