"""Feed-forward blocks compute their formulas."""

from __future__ import annotations

import numpy as np

from minigrad import Tensor, nn, ops
from minigrad.ops.elementwise import gelu_formula
from minigrad.ops.gating import swiglu_formula


def test_the_swiglu_block_is_its_formula() -> None:
    block = nn.SwiGLUFeedForward(4, 6)
    x = Tensor(np.ones((2, 4), np.float32))
    gate, up = (ops.linear(x, layer.weight) for layer in (block.gate_proj, block.up_proj))
    unfused = ops.linear(ops.silu(gate) * up, block.down_proj.weight)
    np.testing.assert_allclose(block(x).data, unfused.data, rtol=1e-5, atol=1e-9)
    in_numpy = swiglu_formula(gate.data, up.data) @ block.down_proj.weight.data.T
    np.testing.assert_allclose(block(x).data, in_numpy, rtol=1e-5, atol=1e-9)


def test_the_gelu_block_is_its_formula() -> None:
    block = nn.GELUFeedForward(4, 6, std=0.5)
    block.initialise(dtype="float64")
    x = np.random.default_rng(0).normal(size=(3, 4))
    wanted = gelu_formula(x @ block.fc1.weight.data.T, approximate="tanh") @ block.fc2.weight.data.T
    np.testing.assert_allclose(block(Tensor(x)).data, wanted, rtol=1e-11, atol=1e-12)


def test_the_block_with_biases_is_its_formula_and_drops_out() -> None:
    block = nn.Conv1DFeedForward(4, 6, std=0.5, out_std=0.1, dropout=0.5)
    block.initialise(dtype="float64")
    block.c_fc.bias.data = np.arange(6.0)
    block.c_proj.bias.data = np.arange(4.0)
    x = np.random.default_rng(0).normal(size=(3, 4))
    hidden = gelu_formula(x @ block.c_fc.weight.data + np.arange(6), approximate="tanh")
    wanted = hidden @ block.c_proj.weight.data + np.arange(4)
    np.testing.assert_allclose(block.eval()(Tensor(x)).data, wanted, rtol=1e-11, atol=1e-12)
    assert nn.dropouts(block) == [block.dropout]


def test_the_last_matrix_has_a_standard_deviation_of_its_own() -> None:
    swiglu, gelu = (
        nn.SwiGLUFeedForward(64, 128, std=0.5, out_std=0.1),
        nn.GELUFeedForward(64, 128, std=0.5, out_std=0.1),
    )
    for inner, last in ((swiglu.up_proj, swiglu.down_proj), (gelu.fc1, gelu.fc2)):
        assert abs(inner.weight.data.std() - 0.5) < 0.02
        assert abs(last.weight.data.std() - 0.1) < 0.005


def test_a_last_layer_with_a_bias_or_of_another_kind_is_called() -> None:
    class Twice(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 2.0

    block, x = nn.SwiGLUFeedForward(4, 6), Tensor(np.ones((2, 4), np.float32))
    plain, weight = block(x).data, block.down_proj.weight
    for layer, wanted in ((nn.Linear(6, 4, bias=True), plain + 3), (Twice(6, 4, bias=False), 2 * plain)):
        layer.weight, block.down_proj = weight, layer
        if layer.bias is not None:
            layer.bias.data[:] = 3
        np.testing.assert_allclose(block(x).data, wanted, rtol=1e-6)
