"""The function `recompute`: gradients of whatever it is given, and what may not change between its two passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import GraphError, Tensor, detect_anomaly, no_grad, ops
from minigrad.autograd.anomaly import AnomalyError
from minigrad.nn import CheckpointedLayer
from minigrad.nn.checkpointing import recompute
from minigrad.optim import AdamW
from tests.models.tiny import build, tokens


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
