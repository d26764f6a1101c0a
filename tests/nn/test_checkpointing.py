"""Recomputed layers give the bits of layers whose activations are stored, and use less memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import Tensor, nn, no_grad
from minigrad.errors import GraphError
from minigrad.nn import CheckpointedLayer, Dropout, checkpointing, dropouts, set_step
from minigrad.nn.language_model import LanguageModel
from tests.models.tiny import TINY, build, tokens

Array = NDArray[Any]

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{family: (family, {}) for family in TINY},
    # Wiola's layers take a list of summaries, and merge neighbours in one of four ways; at 0.3 many merge.
    **{f"wiola merging {atm}": ("wiola", {"atm": atm, "atm_threshold": 0.3}) for atm in ("first", "avg_causal")},
    "wiola merging kv_only": ("wiola", {"atm": "kv_only", "atm_threshold": 0.3}),
    "wiola as in the paper": ("wiola", {"atm": "paper", "atm_threshold": 0.3, "gcla_summary": "paper"}),
    "wiola without merging": ("wiola", {"atm": "off"}),
}


def loss_and_gradients(model: LanguageModel, seed: int = 0, shape: tuple[int, int] = (2, 11)) -> dict[str, bytes]:
    """Return the bits of the loss and of every gradient, accumulated over two micro-batches."""
    model.zero_grad()
    bits = {}
    for micro in range(2):
        set_step(dropouts(model), seed, micro)
        ids = tokens(seed + micro, shape[0], shape[1] + 1)
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward(np.array(0.5))
        bits[f"loss {micro}"] = loss.data.tobytes()
    return bits | {name: np.asarray(parameter.grad).tobytes() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_have_the_same_bits(case: str, dropout: float, dtype: str) -> None:
    family, changes = CASES[case]
    model = build(family, dtype, dropout=dropout, **changes)
    stored = loss_and_gradients(model)
    model.recompute_layers()
    assert loss_and_gradients(model) == stored
    if "merging" in case and "without" not in case:
        assert max(model.measurements()["merge_ratio"]) > 0.1  # some rows merged
    model.recompute_layers(False)
    assert not any(module.recomputed for _, module in model.named_modules() if isinstance(module, CheckpointedLayer))
    assert loss_and_gradients(model) == stored


@pytest.mark.parametrize("family", TINY)
@given(seed=st.integers(0, 99), batch_size=st.integers(1, 3), length=st.integers(1, 12))
@settings(max_examples=6)
def test_batches_of_any_shape_give_the_same_bits(family: str, seed: int, batch_size: int, length: int) -> None:
    model = build(family, dropout=0.2)
    stored = loss_and_gradients(model, seed, (batch_size, length))
    model.recompute_layers()
    assert loss_and_gradients(model, seed, (batch_size, length)) == stored


def test_every_layer_of_every_family_can_be_recomputed() -> None:
    for family, fields in TINY.items():
        layers = [module for _, module in build(family).named_modules() if isinstance(module, CheckpointedLayer)]
        assert len(layers) == fields["num_layers"]


def gradients_of_two_steps(model: LanguageModel) -> dict[str, bytes]:
    """Return the bits of the gradients of the sum of two losses, with the masks of two steps, in evaluation mode."""
    model.zero_grad()
    model.train()
    losses = []
    for step in range(2):
        set_step(dropouts(model), 7, step)
        ids = tokens(step, 2, 12)
        losses.append(model.loss(ids[:, :-1], ids[:, 1:]))
    model.eval()
    (losses[0] + losses[1]).backward()
    return {name: np.asarray(parameter.grad).tobytes() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("family", TINY)
def test_the_second_pass_has_the_masks_and_the_mode_of_the_first(family: str) -> None:
    model = build(family, dropout=0.3)
    stored = gradients_of_two_steps(model)
    model.recompute_layers()
    assert gradients_of_two_steps(model) == stored
    dropouts = [module for _, module in model.named_modules() if isinstance(module, Dropout)]
    assert {(each.step, each.training) for each in dropouts} == {(1, False)}


def test_other_dropout_masks_in_the_second_pass_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("vidya-v2", dropout=0.3)
    stored = gradients_of_two_steps(model)
    model.recompute_layers()
    monkeypatch.setattr(checkpointing, "_apply", lambda *_: None)
    changed = gradients_of_two_steps(model)
    assert not any(changed[name] == bits for name, bits in stored.items() if "layers" in name)


def _stored_bytes(model: LanguageModel, ids: Array) -> int:
    """Return the number of bytes allocated between forward and backward."""
    gc.collect()
    tracemalloc.start()
    try:
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        stored = tracemalloc.get_traced_memory()[0]
        loss.backward()
    finally:
        tracemalloc.stop()
    return stored


@pytest.mark.parametrize("family", TINY)
def test_less_memory_is_used_between_forward_and_backward(family: str) -> None:
    model = build(family, context_length=256)
    ids = tokens(0, 2, 129)
    _stored_bytes(model, ids)  # makes compiled code and threads, which stay
    model.zero_grad()
    stored = _stored_bytes(model, ids)
    model.recompute_layers()
    recomputed = _stored_bytes(model, ids)
    assert recomputed < stored / 2


def test_the_memory_of_a_layer_is_that_of_its_input() -> None:
    ids = tokens(0, 2, 129)
    found = []
    for layers in (2, 6):
        model = build("vidya-v2", num_layers=layers, context_length=128)
        model.recompute_layers()
        _stored_bytes(model, ids)
        found.append(_stored_bytes(model, ids))
    one_input = 2 * 128 * TINY["vidya-v2"]["width"] * 4
    assert found[1] - found[0] < 4 * (one_input + 10_000)  # the rest: nodes and other Python objects


def test_without_recording_a_layer_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("gpt2").eval()
    model.recompute_layers()
    calls = []
    forward = type(model.h[0]).forward
    monkeypatch.setattr(type(model.h[0]), "forward", lambda self, *rest: (calls.append(self), forward(self, *rest))[1])
    with no_grad():
        assert not model.loss(tokens(0, 1, 5), tokens(1, 1, 5)).requires_grad
    assert len(calls) == len(model.h)
    calls.clear()
    model.loss(tokens(0, 1, 5), tokens(1, 1, 5)).backward()
    assert len(calls) == 2 * len(model.h)


def test_a_frozen_layer_whose_input_has_no_gradient_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = build("gpt2").eval(), []
    forward = type(model.h[0]).forward
    monkeypatch.setattr(type(model.h[0]), "forward", lambda self, *rest: (calls.append(self), forward(self, *rest))[1])
    for module in (model.wte, model.wpe, *model.h[:-1]):
        module.freeze()
    model.wte.freeze(False)  # the head as well: a gradient reaches every layer
    stored = loss_and_gradients(model)
    model.recompute_layers()
    assert loss_and_gradients(model) == stored
    model.wte.freeze()
    calls.clear()
    model.loss(tokens(0, 1, 5), tokens(1, 1, 5)).backward()
    assert calls == [*model.h, model.h[-1]]
    model.freeze()
    with pytest.raises(GraphError, match="requires"):
        model.loss(tokens(0, 1, 5), tokens(1, 1, 5)).backward()


def test_a_cache_is_filled_the_same_with_recomputed_layers() -> None:
    model = build("vidya-v2").eval()
    ids = tokens(0, 2, 7)
    wanted = model(ids, cache=model.new_cache(2)).data
    model.recompute_layers()
    with no_grad():
        np.testing.assert_array_equal(model(ids, cache=model.new_cache(2)).data, wanted)


class Shared(NamedTuple):
    first: Tensor
    name: str


@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: (t, 1), lambda t: {"a": [t]}, lambda t: Shared(t, "b")])
def test_layers_may_share_a_tensor_in_an_option(wrap: Callable[[Tensor], Any]) -> None:
    class Layer(CheckpointedLayer):
        def __init__(self) -> None:
            self.linear = nn.Linear(2, 2)

        def forward(self, x: Tensor, *, first: Any) -> Tensor:
            while not isinstance(first, Tensor):
                first = first["a"] if isinstance(first, dict) else first[0]
            return self.linear(x) + first

    found = []
    for recomputed in (False, True):
        layers = nn.Sequential(Layer(), Layer())
        layers.initialise(0)
        for layer in (layers[0], layers[1]):
            layer.recomputed = recomputed
        x = Tensor(np.ones((3, 2), np.float32), requires_grad=True)
        shared = x * 2.0
        layers[1](layers[0](x, first=wrap(shared)), first=wrap(shared)).sum().backward()
        found.append((x.grad, layers[0].linear.weight.grad))
    for stored, again in zip(*found, strict=True):
        np.testing.assert_array_equal(stored, again)
