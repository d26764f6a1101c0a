"""Anomaly detection names the first operation that computes NaN or infinity from finite values, and no other."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import Tensor, detect_anomaly, ops
from minigrad.autograd.anomaly import AnomalyError


def test_an_anomaly_in_the_forward_pass_names_operation_and_line() -> None:
    x = Tensor([1.0, -1.0])
    with detect_anomaly(), pytest.raises(AnomalyError) as caught:
        ops.log(x)
    assert "log made 1 NaN and 0 infinities out of finite input" in str(caught.value)
    infinite = Tensor([np.inf])
    with detect_anomaly(), np.errstate(invalid="ignore"), pytest.raises(AnomalyError, match="out of infinite input"):
        ops.subtract(infinite, infinite)
    assert f"{__file__}:" in str(caught.value)


def test_an_anomaly_in_the_backward_pass_names_operation_and_line_of_the_forward_call() -> None:
    x = Tensor([0.0, 1.0], requires_grad=True)
    with detect_anomaly():
        y = ops.sqrt(x)
        loss = y.sum()
        with pytest.raises(AnomalyError, match="backward of sqrt made 0 NaN and 1 infinities") as caught:
            loss.backward()
    this = test_an_anomaly_in_the_backward_pass_names_operation_and_line_of_the_forward_call
    assert f"{__file__}:{this.__code__.co_firstlineno + 3}" in str(caught.value)


def test_operations_after_the_first_anomaly_are_not_named() -> None:
    with detect_anomaly(), pytest.raises(AnomalyError, match=r"^divide made"), np.errstate(divide="ignore"):
        ops.exp(ops.softmax(Tensor([1.0]) / Tensor([0.0])))


def test_masks_of_minus_infinity_are_no_anomaly() -> None:
    x = Tensor(np.ones((3, 3)), requires_grad=True)
    with detect_anomaly():
        masked = ops.where(np.tri(3, dtype=bool), x, -np.inf)
        (ops.softmax(masked) * ops.logsumexp(masked, keepdims=True)).sum().backward()
    assert x.grad is not None
    assert np.isfinite(x.grad).all()


def test_a_nan_in_the_input_is_no_anomaly() -> None:
    with detect_anomaly():
        ops.exp(Tensor([float("nan")]))
        ops.embedding(Tensor(np.zeros((2, 2))), Tensor([1]))


def test_detection_ends_with_the_block_also_after_an_error() -> None:
    with pytest.raises(AnomalyError), detect_anomaly():
        ops.log(Tensor([-1.0]))
    assert np.isnan(ops.log(Tensor([-1.0])).item())
