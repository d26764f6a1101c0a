"""Every model: gradients equal central differences, accumulate, and reach every parameter; one batch can be learned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import models
from minigrad import Tensor
from minigrad.autograd import gradcheck
from minigrad.nn import dropouts, set_step
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
from tests.models.defaults import build_default
from tests.models.tiny import TINY, VOCAB, WITHOUT_GRADIENT, build, tokens

Array = NDArray[Any]
every_family = pytest.mark.parametrize("family", TINY)


def gradients_after(model: LanguageModel, *batches: tuple[Array, Array]) -> dict[str, Array]:
    model.zero_grad()
    for ids, targets in batches:
        (model.loss(ids, targets) * (1 / len(batches))).backward()
    return {name: np.array(p.grad) for name, p in model.named_parameters()}


@every_family
def test_accumulated_gradients_are_those_of_the_full_batch(family: str) -> None:
    model, ids = build(family, "float64").eval(), tokens(0, 4, 9)
    full = gradients_after(model, (ids[:, :-1], ids[:, 1:]))
    halves = gradients_after(model, (ids[:2, :-1], ids[:2, 1:]), (ids[2:, :-1], ids[2:, 1:]))
    for name, gradient in full.items():
        np.testing.assert_allclose(halves[name], gradient, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("family", models.FAMILIES)
def test_accumulated_gradients_are_those_of_the_full_batch_by_default(family: str) -> None:
    """In float32 and at a default step, whose products take other paths than the small ones above."""
    model, ids = build_default(family, vocab_size=VOCAB).eval(), tokens(0, 8, 257)
    full = gradients_after(model, (ids[:, :-1], ids[:, 1:]))
    halves = gradients_after(model, (ids[:4, :-1], ids[:4, 1:]), (ids[4:, :-1], ids[4:, 1:]))
    for name, gradient in full.items():
        assert np.linalg.norm(halves[name] - gradient) <= 1e-4 * np.linalg.norm(gradient), name


def check_gradient(model: LanguageModel, ids: Array) -> None:
    targets = ids[:, 1:].copy()
    targets[0, 2] = -100
    parameters = model.parameters()

    def loss(*arrays: Tensor) -> Tensor:
        for parameter, array in zip(parameters, arrays, strict=True):
            parameter._data, parameter.node = array.data, array.node
        return model.loss(ids[:, :-1], targets)

    # Each array along one direction: element by element, the many small arrays would take four times as long.
    gradcheck.check(loss, *(parameter.data.copy() for parameter in parameters), small=0)


@every_family
def test_the_gradient_of_the_whole_model_equals_central_differences(family: str) -> None:
    check_gradient(build(family, "float64").eval(), tokens(1, 2, 8))


@pytest.mark.parametrize("variant", ["first", "avg_causal", "kv_only", "paper"])
def test_the_gradient_through_merged_tokens_equals_central_differences(variant: str) -> None:
    # The fewest layers of which two merge, so that merged tokens are merged again.
    model: Any = build("wiola", "float64", num_layers=5, atm=variant, atm_threshold=0.5, init_std=0.3).train()
    ids = np.repeat(tokens(1, 2, 4), 2, axis=1)
    check_gradient(model, ids)
    assert max(model.measurements()["merge_ratio"]) > 0


@every_family
def test_every_parameter_receives_a_gradient(family: str) -> None:
    ids = tokens(2, 3, 10)
    for name, gradient in gradients_after(build(family).eval(), (ids[:, :-1], ids[:, 1:])).items():
        assert np.isfinite(gradient).all(), name
        if name.endswith(WITHOUT_GRADIENT.get(family, ())):
            assert (gradient == 0).all(), name
            continue
        used = gradient[:9] if "wpe" in name else gradient
        assert (used != 0).mean() > 0.9, name


@pytest.mark.parametrize("family", models.FAMILIES)
@pytest.mark.parametrize("vocab_size", [2_048, 4_096])
def test_the_first_loss_is_the_logarithm_of_the_vocabulary_size(family: str, vocab_size: int) -> None:
    model = build_default(family, vocab_size=vocab_size)
    ids = np.random.default_rng(0).integers(0, vocab_size, (8, 33))
    assert model.loss(ids[:, :-1], ids[:, 1:]).item() == pytest.approx(math.log(vocab_size), rel=0.03)


@every_family
def test_one_batch_can_be_learned(family: str) -> None:
    model = build(family, init_std=0.1)
    optimizer = AdamW(model.parameters(), lr=0.02, weight_decay=0.0)
    ids = tokens(3, 2, 9)
    for _ in range(150):
        optimizer.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step(max_norm=1.0)
    # Two sequences with the same first token cannot be distinguished there; from two tokens on they can.
    assert loss.item() < 0.25


@every_family
def test_dropout_acts_in_training_only_and_is_a_function_of_the_step(family: str) -> None:
    model = build(family, dropout=0.3, **({"atm": "off"} if family == "wiola" else {}))
    ids = tokens(4, 1, 8)
    without = model.eval()(ids).data
    assert model(ids).data.tobytes() == without.tobytes()
    model.train()
    set_step(dropouts(model), seed=0, step=1)
    first = model(ids).data
    assert first.tobytes() == model(ids).data.tobytes()
    set_step(dropouts(model), seed=0, step=2)
    assert (model(ids).data != first).any()
    assert (first != without).any()


@pytest.mark.parametrize("family", ["gpt2", "vidya-v2", "vsla", "wiola"])
def test_a_head_of_its_own_receives_a_gradient(family: str) -> None:
    model, ids = build(family, tied_head=False), tokens(0, 2, 9)
    assert (gradients_after(model, (ids[:, :-1], ids[:, 1:]))["lm_head.weight"] != 0).mean() > 0.9
