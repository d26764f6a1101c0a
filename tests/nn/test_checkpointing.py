"""Recomputed layers give the bits of layers whose activations are stored, and use less memory."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import GraphError, Tensor, detect_anomaly, no_grad, ops
from minigrad.autograd.anomaly import AnomalyError
from minigrad.nn import CheckpointedLayer, set_step
from minigrad.nn.checkpointing import recompute
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
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
        set_step(model, seed, micro)
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


def test_other_dropout_masks_in_the_second_pass_are_caught() -> None:
    model = build("vidya-v2", dropout=0.3)
    stored = loss_and_gradients(model)
    model.recompute_layers()
    ids = tokens(0, 2, 12)
    model.zero_grad()
    set_step(model, 0, 0)
    loss = model.loss(ids[:, :-1], ids[:, 1:])
    set_step(model, 0, 1)  # too early: the backward pass of this step still needs the old masks
    loss.backward()
    names = [name for name, p in model.named_parameters() if np.asarray(p.grad).tobytes() == stored[name]]
    assert not any("layers" in name for name in names)


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


def test_a_cache_is_filled_the_same_with_recomputed_layers() -> None:
    model = build("vidya-v2").eval()
    ids = tokens(0, 2, 7)
    wanted = model(ids, cache=model.new_cache(2)).data
    model.recompute_layers()
    with no_grad():
        np.testing.assert_array_equal(model(ids, cache=model.new_cache(2)).data, wanted)


def leaf(seed: int = 0, shape: tuple[int, ...] = (3, 4)) -> Tensor:
    return Tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def test_nothing_is_recorded_under_no_grad() -> None:
    with no_grad():
        assert not recompute(ops.exp, leaf()).requires_grad


def test_recompute_inside_recompute() -> None:
    x, weight, calls = leaf(), leaf(1, (4, 4)), []

    def inner(rows: Tensor) -> Tensor:
        calls.append("inner")
        return ops.tanh(ops.linear(rows, weight))

    def outer(rows: Tensor) -> Tensor:
        return recompute(inner, recompute(inner, rows)) + rows

    gradients = []
    for function in (lambda rows: inner(inner(rows)) + rows, outer, lambda rows: recompute(outer, rows)):
        x.zero_grad()
        weight.zero_grad()
        calls.clear()
        (function(x * 2.0) * 3.0).sum().backward()
        gradients.append((np.array(x.grad).tobytes(), np.array(weight.grad).tobytes()))
    assert gradients[0] == gradients[1] == gradients[2]
    # Both inner calls without recording; again for the outer one, without recording; and again for their gradients.
    assert len(calls) == 6


def test_tensors_in_lists_and_parameters_used_twice_receive_their_gradients() -> None:
    x, first, second, weight = leaf(), leaf(1), leaf(2), leaf(3, (4, 4))
    fixed, number = Tensor(np.ones((3, 4))), Tensor([1, 2, 0])

    def function(rows: Tensor, others: list[Any], factor: float, ids: Tensor, still: Tensor) -> Tensor:
        mixed = ops.linear(rows, weight) * others[0] + others[1] * factor + ops.linear(still, weight)
        return mixed * ops.embedding(rows, ids)

    gradients = []
    for recomputed in (False, True):
        for tensor in (x, first, second, weight):
            tensor.zero_grad()
        arguments = (x, [first, second * 1.0, None], 0.5, number, fixed)
        y = recompute(function, *arguments) if recomputed else function(*arguments)
        (y.sum() + (x * x).sum()).backward()
        gradients.append([np.array(tensor.grad) for tensor in (x, first, second, weight)])
    for stored, again in zip(*gradients, strict=True):
        np.testing.assert_allclose(again, stored, rtol=1e-13)  # gradients are added in another order
    assert fixed.grad is None


def test_an_unused_argument_and_a_constant_result_have_no_gradient() -> None:
    x, unused = leaf(), leaf(1)
    recompute(lambda rows, _: rows * 2.0, x, unused).sum().backward()
    assert unused.grad is None
    assert (x.grad == 2).all()
    recompute(lambda rows: Tensor(rows.data * 2.0), unused).sum().backward()
    assert unused.grad is None


def test_appending_to_a_list_argument_afterwards_changes_nothing() -> None:
    x, found = leaf(), [leaf(1)]
    y = recompute(lambda rows, others: rows * others[0], x, found[-1:])
    found.append(leaf(2))
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, found[0].data)


def test_an_input_changed_in_place_is_noticed() -> None:
    factor, x = Tensor(np.ones((3, 4))), leaf()
    for arguments in ((x, factor), (x, [factor])):
        y = recompute(lambda a, b: a * (b[0] if isinstance(b, list) else b), *arguments)
        factor[...] = 2.0
        with pytest.raises(GraphError, match=r"recompute saved an array .* changed in place"):
            y.sum().backward()


def test_a_parameter_changed_between_forward_and_backward_is_noticed_with_and_without_recomputing() -> None:
    for recomputed in (False, True):
        model = build("vidya-v2")
        model.recompute_layers(recomputed)
        optimizer = AdamW(model.parameters())
        ids = tokens(0, 2, 9)
        model.loss(ids, ids).backward()
        loss = model.loss(ids, ids)
        optimizer.step()
        with pytest.raises(GraphError, match="changed in place"):
            loss.backward()


def test_a_change_of_a_parameter_inside_a_layer_is_noticed() -> None:
    model, ids = build("vidya-v2"), tokens(0, 2, 9)
    model.recompute_layers()
    loss = model.loss(ids, ids)
    with no_grad():
        model.model.layers[0].mlp.down_proj.weight[0, 0] = 3.0
    with pytest.raises(GraphError, match="recompute saved an array"):
        loss.backward()


def test_a_result_that_is_a_view_of_its_input_shares_its_version() -> None:
    x, weight = Tensor(np.ones((3, 4))), leaf()
    flat = recompute(lambda rows: rows.reshape(4, 3), x)
    y = flat * Tensor(np.ones((4, 3)), requires_grad=True)
    x[...] = 5.0
    with pytest.raises(GraphError, match="changed in place"):
        (y.sum() + weight.sum()).backward()


def test_a_second_backward_is_refused() -> None:
    y = recompute(ops.exp, leaf()).sum()
    y.backward()
    with pytest.raises(GraphError, match="already used and freed"):
        y.backward()


def test_anomalies_inside_a_recomputed_function_are_named() -> None:
    x = Tensor(np.array([1.0, 0.0]), requires_grad=True)
    with detect_anomaly():
        y = recompute(ops.sqrt, x)
        with pytest.raises(AnomalyError, match="the backward of sqrt made"):
            y.sum().backward()
    with detect_anomaly(), pytest.raises(AnomalyError, match="log made"):
        recompute(ops.log, x - 1.0)


class Square(CheckpointedLayer):
    def forward(self, x: Tensor, *, power: int = 2) -> Tensor:
        return x**power


def test_options_are_passed_to_the_layer_in_both_passes() -> None:
    layer, x = Square(), leaf()
    layer.recomputed = True
    layer(x, power=3).sum().backward()
    np.testing.assert_allclose(x.grad, 3 * x.data**2)
