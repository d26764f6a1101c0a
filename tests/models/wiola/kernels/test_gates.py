"""Gates: extreme gates choose, and the gradients are the slopes."""

from __future__ import annotations

import numpy as np

from models.wiola.kernels import gates

RNG = np.random.default_rng(0)
A, B, GATE, DY = (RNG.normal(size=(2, 3, 5)) for _ in range(4))
STEP = 1e-6


def test_an_extreme_gate_is_open_or_closed() -> None:
    a, b = np.full((1, 4), 3, np.float32), np.full((1, 4), 5, np.float32)
    gate = np.array([[-np.inf, -1e4, 1e4, np.inf]], np.float32)
    np.testing.assert_array_equal(gates.sigmoid_gate_forward(a, gate), [[0, 0, 3, 3]])
    np.testing.assert_array_equal(gates.blend_forward(a, b, gate), [[5, 5, 3, 3]])


def test_the_shares_of_a_blend_add_up_to_one() -> None:
    da, db, _ = gates.blend_backward(DY, A, B, GATE)
    np.testing.assert_allclose(da + db, DY, rtol=1e-12)
    np.testing.assert_allclose(gates.blend_forward(A, A, GATE), A, rtol=1e-12)


def test_the_gradients_by_the_gate_are_the_slopes() -> None:
    def slope(forward, *inputs):  # type: ignore[no-untyped-def]
        return (forward(*inputs, GATE + STEP) - forward(*inputs, GATE - STEP)) / (2 * STEP)

    dx, dgate = gates.sigmoid_gate_backward(DY, A, GATE)
    np.testing.assert_allclose(dgate, DY * slope(gates.sigmoid_gate_forward, A), atol=1e-8)
    np.testing.assert_allclose(dx * A, DY * gates.sigmoid_gate_forward(A, GATE), rtol=1e-10)
    *_, dgate = gates.blend_backward(DY, A, B, GATE)
    np.testing.assert_allclose(dgate, DY * slope(gates.blend_forward, A, B), atol=1e-8)
    assert dgate.shape == A.shape
