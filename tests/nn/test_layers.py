"""The basic layers compute their operations; dropout follows seed, step and mode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, Tensor, nn, ops
from minigrad.adapters.low_rank import LowRank
from minigrad.adapters.token_rows import TokenRows
from minigrad.experts import Experts
from minigrad.nn import Module, dropouts, set_step


def test_linear_with_and_without_bias() -> None:
    layer = nn.Linear(3, 2)
    assert layer.bias is not None
    layer.bias.data = np.array([1.0, 2.0])
    x = Tensor(np.eye(3, dtype=np.float32))
    np.testing.assert_allclose(layer(x).data, layer.weight.data.T + layer.bias.data)
    assert layer.weight.shape == (2, 3)
    plain = nn.Linear(3, 2, bias=False)
    assert plain.bias is None
    assert [name for name, _ in plain.named_parameters()] == ["weight"]


def test_conv1d_stores_its_weight_transposed() -> None:
    layer = nn.Conv1D(3, 2)
    layer.bias.data = np.array([1.0, 2.0])
    x = Tensor(np.eye(3, dtype=np.float32))
    np.testing.assert_allclose(layer(x).data, layer.weight.data + layer.bias.data)
    assert layer.weight.shape == (3, 2)


def test_embedding_and_norms_compute_their_operations() -> None:
    table = nn.Embedding(4, 3)
    np.testing.assert_array_equal(table(Tensor([[2, 0]])).data[0], table.weight.data[[2, 0]])
    x = Tensor(np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32))
    rms, layer = nn.RMSNorm(3, eps=1e-3), nn.LayerNorm(3, eps=1e-3)
    np.testing.assert_array_equal(rms(x).data, ops.rms_norm(x, rms.weight, eps=1e-3).data)
    np.testing.assert_array_equal(layer(x).data, ops.layer_norm(x, layer.weight, layer.bias, eps=1e-3).data)


class TwoDropouts(Module):
    def __init__(self) -> None:
        self.first, self.second = nn.Dropout(0.5), nn.Dropout(0.5)


def test_each_dropout_layer_and_each_step_has_its_own_mask() -> None:
    model, x = TwoDropouts(), Tensor(np.ones(100, np.float32))
    set_step(dropouts(model), seed=1, step=5)
    first, second = model.first(x).data, model.second(x).data
    assert (first != second).any()
    assert model.first(x).data.tobytes() == first.tobytes()
    set_step(dropouts(model), seed=1, step=6)
    assert (model.first(x).data != first).any()
    set_step(dropouts(model), seed=1, step=5)
    assert model.first(x).data.tobytes() == first.tobytes()


def test_dropout_changes_nothing_at_evaluation_or_with_probability_zero() -> None:
    x = Tensor(np.ones(100, np.float32))
    assert nn.Dropout(0.5).eval()(x) is x
    assert nn.Dropout(0.0)(x) is x
    with pytest.raises(InputError, match="at least 0 and below 1, not 1"):
        nn.Dropout(1.0)


def test_the_options_for_attention_are_those_of_the_layer_in_training_only() -> None:
    layer = nn.Dropout(0.5)
    set_step([layer], seed=3, step=4, first_row=6)
    assert layer.draws() == {"dropout": 0.5, "seed": 3, "step": 4, "index": 0, "first_row": 6}
    assert layer.eval().draws() == {}
    assert nn.Dropout(0.0).draws() == {}


def test_the_outputs_of_a_linear_layer_vary_as_much_as_its_inputs() -> None:
    layer = nn.Linear(400, 300)
    x = np.random.default_rng(0).normal(size=(50, 400))
    assert layer(x).data.std() == pytest.approx(1, rel=0.05)
    assert layer.bias is not None
    assert not layer.bias.data.any()


def test_layers_one_after_the_other() -> None:
    first, last = nn.Linear(3, 5), nn.Linear(5, 3)
    model = nn.Sequential(first, ops.tanh, last)
    x = Tensor(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))
    wanted = last(ops.tanh(first(x))).data
    np.testing.assert_array_equal(model(x).data, wanted)
    np.testing.assert_array_equal(nn.Residual(first, ops.tanh, last)(x).data, x.data + wanted)
    assert list(model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert model[2] is last
    assert len(model) == len(list(model)) == 3
    assert next(name for name, _ in nn.Sequential(model, nn.Dropout(0.5)).named_parameters()) == "0.0.weight"
    assert not any(module.training for _, module in nn.Sequential(model).eval().named_modules())


@pytest.mark.parametrize("layers", [[nn.Linear(1, 1)], [3]])
def test_what_cannot_be_called_is_refused(layers: Any) -> None:
    with pytest.raises(InputError, match=r"Sequential takes modules and functions.*a list is given as Sequential"):
        nn.Sequential(layers)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(-1, 3), "inputs of Linear takes a whole number of at least 0, not -1"),
        (lambda: nn.Linear(3, -2), "outputs of Linear .*, not -2"),
        (lambda: nn.Linear(3, 2.5), r"outputs of Linear .*, not 2\.5"),
        (lambda: nn.Linear(3, 2, std=-1.0), r"the standard deviation of initial values .* at least 0, not -1\.0"),
        (lambda: nn.Conv1D(-1, 3), "inputs of Conv1D .*, not -1"),
        (lambda: LowRank(4, 4, 0), "rank of LowRank .*, not 0"),
        (lambda: nn.Embedding(0, 3), "vocab_size of Embedding takes a whole number of at least 1, not 0"),
        (lambda: nn.Embedding(5, -3), "width of Embedding .*, not -3"),
        (lambda: nn.RMSNorm(0), "width of RMSNorm .*, not 0"),
        (lambda: nn.RMSNorm(4, eps=-9), "eps of RMSNorm takes a finite number of at least 0, not -9"),
        (lambda: nn.LayerNorm(4, eps=math.nan), "eps of LayerNorm .*, not nan"),
        (lambda: nn.Dropout(math.nan), "the probability of dropout .* at least 0 and below 1, not nan"),
        (lambda: nn.SelfAttention(8, 0), "num_heads of SelfAttention .*, not 0"),
        (lambda: nn.GroupedQueryAttention(8, -2, 1, -4), "num_heads of GroupedQueryAttention .*, not -2"),
        (lambda: Experts(4, 2, 3, nn.Sequential), "per_token of Experts .* at least 1 and at most 2, not 3"),
        (lambda: Experts(4, 2, 1, nn.Sequential, balance=-1.0), r"balance of Experts .*, not -1\.0"),
        (lambda: TokenRows([1], 0), "width of TokenRows .*, not 0"),
    ],
)
def test_settings_that_a_layer_cannot_use_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_sizes_may_be_numbers_of_numpy() -> None:
    assert nn.Linear(np.int64(3), np.int32(2)).weight.shape == (2, 3)


def test_a_sequential_of_ones_own_has_parameters_of_its_own() -> None:
    class Scaled(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.Linear(2, 2))
            self.scale = nn.Parameter([1.0])

    assert sorted(name for name, _ in Scaled().named_parameters()) == ["0.bias", "0.weight", "scale"]
