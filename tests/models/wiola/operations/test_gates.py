"""Gates: extreme gates pass everything or nothing, without overflow; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import ShapeError, Tensor
from models.wiola.operations.gates import blend, sigmoid_gate

GATES = [-np.inf, -1e4, -90.0, 0.0, 90.0, 1e4, np.inf]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_gates_pass_all_or_nothing(dtype: Any) -> None:
    a, b, gate = (Tensor(np.array(x, dtype), requires_grad=True) for x in ([2.0] * 7, [-3.0] * 7, GATES))
    gated, mixed = sigmoid_gate(a, gate), blend(a, b, gate)
    np.testing.assert_allclose(gated.data, [0, 0, 0, 1, 2, 2, 2], atol=1e-30)
    np.testing.assert_allclose(mixed.data, [-3, -3, -3, -0.5, 2, 2, 2])
    (gated + mixed).sum().backward()
    for each in (a, b, gate):
        assert each.grad is not None
        assert np.isfinite(each.grad).all()


def test_streams_of_different_shapes_are_refused() -> None:
    one, other = Tensor(np.zeros((2, 3))), Tensor(np.zeros((2, 1)))
    with pytest.raises(ShapeError, match=r"sigmoid_gate needs arrays of one shape .* \(2, 3\), \(2, 1\)"):
        sigmoid_gate(one, other)
    with pytest.raises(ShapeError, match=r"blend .* \(2, 3\), \(2, 3\), \(2, 1\)"):
        blend(one, one, other)
    with pytest.raises(ShapeError, match="sigmoid_gate"):
        sigmoid_gate(Tensor(1.0), Tensor(1.0))
