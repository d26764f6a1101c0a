"""SwiGLU: extreme gates, and the gradient of both inputs."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.rowwise.gating import swiglu_backward, swiglu_forward


def test_extreme_gates_are_closed_or_linear() -> None:
    gate, up = np.array([[-1e4, -200, 0, 200, 1e4]], np.float32), np.full((1, 5), 2, np.float32)
    np.testing.assert_array_equal(swiglu_forward(gate, up), [[0, 0, 0, 400, 2e4]])
    dgate, dup = swiglu_backward(np.ones_like(gate), gate, up)
    np.testing.assert_array_equal(dgate, [[0, 0, 1, 2, 2]])
    np.testing.assert_array_equal(dup, [[0, 0, 0, 200, 1e4]])


def test_the_gradients_are_the_slopes() -> None:
    rng, step = np.random.default_rng(0), 1e-6
    gate, up, dy = (rng.normal(size=(2, 3, 9)) for _ in range(3))
    dgate, dup = swiglu_backward(dy, gate, up)
    along_gate = (swiglu_forward(gate + step, up) - swiglu_forward(gate - step, up)) / (2 * step)
    along_up = (swiglu_forward(gate, up + step) - swiglu_forward(gate, up - step)) / (2 * step)
    np.testing.assert_allclose(dgate, dy * along_gate, atol=1e-8)
    np.testing.assert_allclose(dup, dy * along_up, atol=1e-8)
