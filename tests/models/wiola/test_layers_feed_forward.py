"""The dual-stream feed-forward block: its equations in plain NumPy, and its gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad import Tensor, ops
from models.wiola.layers import DualStreamFeedForward
from tests.models.wiola.tiny import draw

Array = NDArray[Any]


def streams(dtype: str = "float64") -> DualStreamFeedForward:
    block = DualStreamFeedForward(8, 4, 12, std=0.5)
    block.initialise(dtype=dtype)
    return block


def test_the_block_keeps_the_shape_and_a_fusion_of_zero_averages_the_streams() -> None:
    block, x = streams(), Tensor(draw(5, 8))
    assert block(x).shape == (5, 8)
    block.fusion.weight.data = np.zeros((8, 16))
    a = block.down_a(ops.swiglu(block.gate_a(x), block.up_a(x))).data
    b = block.down_b(ops.gelu(block.up_b(x))).data
    np.testing.assert_allclose(block(x).data, (a + b) / 2, rtol=1e-12)


def test_the_block_is_its_equations() -> None:
    block, x = streams(), draw(5, 8)
    gate_a, up_a, down_a, up_b, down_b, fusion = (parameter.data.T for parameter in block.parameters())
    wide = x @ up_b
    a = (x @ gate_a / (1 + np.exp(-x @ gate_a)) * (x @ up_a)) @ down_a
    b = (wide / 2 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))) @ down_b
    share = 1 / (1 + np.exp(-np.concatenate([a, b], axis=1) @ fusion))
    np.testing.assert_allclose(block(Tensor(x)).data, share * a + (1 - share) * b, rtol=1e-12, atol=1e-12)
