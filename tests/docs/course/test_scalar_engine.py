"""The scalar engine computes the gradients that minigrad computes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from docs.course.scalar_engine import Value
from minigrad import Tensor

EXPRESSIONS: list[Any] = [
    lambda a, b: a + b * a,
    lambda a, b: (a - b) / (a * a + 2.0),
    lambda a, b: 3.0 * a + 1.0 / (1.0 + (2.0 * b).tanh() ** 2) if isinstance(a, Tensor) else 3.0 * a + ratio(b),
    lambda a, b: ((a * b + b) ** 3 - a).tanh() * b,
]


def ratio(b: Value) -> Any:
    return (1.0 + (2.0 * b).tanh() ** 2) ** -1


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_gradients(expression: Any) -> None:
    values = [Value(0.4), Value(-0.7)]
    tensors = [Tensor([each.data], requires_grad=True, dtype="float64") for each in values]
    result, expected = expression(*values), expression(*tensors)
    result.backward()
    expected.backward()
    assert result.data == pytest.approx(expected.item(), rel=1e-12)
    for value, tensor in zip(values, tensors, strict=True):
        assert value.gradient == pytest.approx(tensor.grad.item(), rel=1e-12)


def test_a_value_that_is_used_often_is_visited_once() -> None:
    chain = [Value(1.0)]
    for _ in range(60):  # 2^60 paths
        chain.append(chain[-1] + chain[-1])
    chain[-1].backward()
    assert chain[0].gradient == 2.0**60


def test_a_long_chain_needs_no_recursion() -> None:
    *_, last = itertools.accumulate(range(5_000), lambda value, _: value * 1.0, initial=(first := Value(2.0)))
    last.backward()
    assert first.gradient == 1.0
