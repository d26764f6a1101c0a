"""Adapters: the model begins as it was, only they learn, and merged they compute the same."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from minigrad import InputError, Tensor, nn, no_grad
from minigrad.adapters import LowRankLinear, adapt, adapt_tokens, adapted, merge
from minigrad.optim import AdamW
from minigrad.programs.decoder import Decoder
from minigrad.quantised import quantise
from tests.models.tiny import TINY, build, tokens


@pytest.mark.parametrize("layer", [nn.Linear(5, 4), nn.Conv1D(5, 4)])
def test_an_adapter_adds_the_product_of_its_matrices(layer: nn.Linear | nn.Conv1D) -> None:
    """Hu et al. 2021, eq. 3."""
    layer = copy.deepcopy(layer)
    layer.initialise(dtype="float64")
    x = np.random.default_rng(0).normal(size=(3, 5))
    before = layer(Tensor(x)).data
    adapter = LowRankLinear(layer, 2)
    adapter.adapter.initialise(dtype="float64")
    np.testing.assert_array_equal(adapter(Tensor(x)).data, before)
    a, b = np.random.default_rng(1).normal(size=(2, 5)), np.random.default_rng(2).normal(size=(4, 2))
    adapter.adapter.lora_A.weight.data, adapter.adapter.lora_B.weight.data = a, b
    np.testing.assert_allclose(adapter(Tensor(x)).data, before + x @ a.T @ b.T, rtol=1e-12)
    np.testing.assert_allclose(adapter.adapter.product(), b @ a, rtol=1e-12)


@pytest.mark.parametrize("family", TINY)
def test_only_adapters_learn_and_merged_they_compute_the_same(family: str) -> None:
    """In training, token by token in a program, and merged; no frozen weight moves, nor has moments."""
    model, ids = build(family), tokens(0, 2, 9)
    frozen = {name: array.copy() for name, array in model.state_dict().items()}
    with no_grad():
        before = model(ids).data.copy()
    adapt(model, 2)
    with no_grad():
        np.testing.assert_array_equal(model(ids).data, before)
    optimizer = AdamW(model.parameters(), lr=0.05)
    adapters = sum(each.size for each in model.parameters() if each.requires_grad)
    assert sum(moment.size for pair in optimizer.moments() for moment in pair) == 2 * adapters
    for _ in range(3):
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    for name, array in frozen.items():
        np.testing.assert_array_equal(model.state_dict()[name], array)
    with no_grad():
        learned = model(ids).data.copy()
    assert np.abs(learned - before).max() > 0.1
    decoder, cache = Decoder(model), model.new_cache(2, 9)
    for place in range(9):
        logits = decoder.step(ids[:, place], cache)
    size = np.abs(learned).max()
    np.testing.assert_allclose(logits, learned[:, -1], atol=1e-5 * size)
    merge(model)
    assert not adapted(model)
    assert all(each.requires_grad for each in model.parameters())
    with no_grad():
        np.testing.assert_allclose(model(ids).data, learned, atol=1e-5 * size)


@pytest.mark.parametrize("family", TINY)
def test_adapters_of_a_quantised_model_learn_what_those_of_the_rounded_one_learn(family: str) -> None:
    small, rounded, ids = build(family), build(family), tokens(0, 2, 9)
    quantise(small, "int8")
    rounded.load_state_dict(small.state_dict())
    gradients = []
    for model in (small, rounded):
        adapt(model, 2)
        for name, parameter in model.named_parameters():
            if name.endswith("lora_B.weight"):
                parameter.data = np.random.default_rng(len(name)).normal(scale=0.1, size=parameter.shape)
        model.loss(ids[:, :-1], ids[:, 1:]).backward()
        found = {name: each.grad for name, each in model.named_parameters() if each.requires_grad}
        gradients.append({name: np.zeros(1) if each is None else np.array(each) for name, each in found.items()})
    one, other = gradients
    size = max(np.abs(each).max() for each in other.values())
    for name, gradient in other.items():
        np.testing.assert_allclose(one[name], gradient, atol=1e-4 * size, err_msg=name)


def test_adapters_of_quantised_layers_without_biases_can_learn() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False))
    quantise(model, "int8")
    adapt(model, 2)
    assert model[0].adapter.lora_A.weight.data.any()
    assert all(each.has_memory for each in model[0].adapter.parameters())


def test_initial_values_depend_on_the_layer_alone() -> None:
    first, second = build("vidya-v2"), build("vidya-v2")
    adapt(first, 2)
    nn.Linear(3, 3)  # drawn in between
    adapt(second, 2)
    for name, array in first.state_dict().items():
        np.testing.assert_array_equal(second.state_dict()[name], array)
    drawn = [each.data for name, each in first.named_parameters() if name.endswith("q_proj.adapter.lora_A.weight")]
    assert not np.array_equal(*drawn)


def test_what_cannot_be_adapted_or_merged_is_refused() -> None:
    model = build("vidya-v2")
    for rank in (0, 9):
        with pytest.raises(InputError, match=f"a rank from 1 to 8, the smallest side of .* model, not {rank}"):
            adapt(model, rank)
    adapt(model, 8)
    with pytest.raises(InputError, match="has adapters already"):
        adapt(model, 2)
    with pytest.raises(InputError, match="merge them before it is saved as a model"):
        model.save("nowhere")
    small = build("vidya-v2")
    quantise(small, "int8")
    adapt(small, 2)
    with pytest.raises(InputError, match="are stored as int8: adapters cannot be added to them"):
        merge(small)


@pytest.mark.parametrize("format", [None, "int8"])
def test_the_router_of_experts_does_not_bound_the_rank(format: str | None) -> None:
    model, few = (build("vidya-v2", experts=4) for _ in range(2))
    if format is not None:
        quantise(model, format)
        quantise(few, format)
    adapt(model, 8)
    assert not [name for name in adapted(model) if name.endswith("mlp.gate")]
    assert [name for name in adapted(model) if name.endswith("experts.3.gate_proj")]
    adapt(few, 4)
    assert [name for name in adapted(few) if name.endswith("mlp.gate")]  # which has this rank


def test_the_tokens_whose_rows_are_trained_are_those_of_the_model_each_once() -> None:
    model = build("vidya-v2")
    refused = (([1, 4, 1], "token 1 is listed twice"), ([1, 13], "and no token 13"), ([1, -1], "and no token -1"))
    for tokens_given, message in refused:
        with pytest.raises(InputError, match=message):
            adapt_tokens(model, tokens_given)


def test_the_adapter_of_a_layer_in_two_places_is_merged_once() -> None:
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, nn.Linear(4, 4), shared)
    model.initialise(0, "float64")
    adapt(model, 2)
    for layer in adapted(model).values():
        layer.adapter.lora_B.weight.data = np.ones((4, 2))
    x = Tensor(np.ones((1, 4)))
    before = model(x).data
    merge(model)
    np.testing.assert_allclose(model(x).data, before, rtol=1e-12)
