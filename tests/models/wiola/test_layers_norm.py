"""Wiola's norm: RMSNorm with an offset, and the gradient that the paper misprints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad import Tensor, ops
from minigrad.autograd import gradcheck
from models.wiola.layers import WiolaRMSNorm
from models.wiola.operations.offset_norm import offset_rms_norm
from tests.models.wiola.tiny import draw

Array = NDArray[Any]


def test_the_norm_keeps_the_shape() -> None:
    assert WiolaRMSNorm(64)(Tensor(draw(3, 5, 64).astype(np.float32))).shape == (3, 5, 64)


def test_an_offset_changes_the_norm_and_an_offset_of_zero_is_rms_norm_bit_for_bit() -> None:
    x, weight = Tensor(draw(4, 16)), Tensor(draw(16, seed=1))
    plain = ops.rms_norm(x, weight, eps=1e-6).data
    assert offset_rms_norm(x, weight, Tensor(np.zeros(16)), eps=1e-6).data.tobytes() == plain.tobytes()
    assert np.abs(offset_rms_norm(x, weight, Tensor(np.ones(16))).data - plain).max() > 0.1


def test_large_values_do_not_overflow() -> None:
    assert np.isfinite(WiolaRMSNorm(64)(Tensor((1e4 * draw(8, 64)).astype(np.float32))).data).all()


def test_the_papers_gradient_of_the_offset_is_wrong_where_the_weight_is_not_one() -> None:
    x, weight, offset, dy = draw(1, 8), 1 + draw(8, seed=1) / 2, draw(8, seed=2) / 2, draw(1, 8, seed=3)
    parameter = Tensor(offset, requires_grad=True)
    offset_rms_norm(Tensor(x), Tensor(weight), parameter).backward(dy)
    z = (x + offset)[0]
    r = math.sqrt((z * z).mean() + 1e-6)
    right = weight * dy[0] / r - z / (8 * r**3) * (weight * dy[0] * z).sum()
    as_printed = weight / r * (dy[0] - z / (8 * r**2) * (weight * dy[0] * z).sum())  # eq. 10, with g as dL/dy
    np.testing.assert_allclose(parameter.grad, right, rtol=1e-10)
    assert np.abs(as_printed - right).max() > 0.02
    gradcheck.check(lambda o: offset_rms_norm(Tensor(x), Tensor(weight), o), offset)
