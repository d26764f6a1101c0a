"""SGD: the textbook's steps, and refused settings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, Tensor, nn, ops
from minigrad.optim import SGD


@given(
    st.sampled_from([(0.0, False), (0.9, False), (0.5, True)]),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
    st.booleans(),
)
def test_steps_are_those_of_the_textbook(kind: tuple[float, bool], decay: float, vectors: bool, flat: bool) -> None:
    momentum, nesterov = kind
    layer = nn.Linear(3, 2)
    if flat:
        layer.initialise(0, "float64")
    optimizer = SGD(
        layer.parameters(), 0.1, momentum=momentum, nesterov=nesterov, weight_decay=decay, decay_vectors=vectors
    )
    w = [parameter.data.copy() for parameter in layer.parameters()]
    velocity = [np.zeros_like(each) for each in w]
    for t in range(4):
        for i, parameter in enumerate(layer.parameters()):
            g = np.random.default_rng([t, i]).normal(size=parameter.shape).astype(parameter.dtype)
            parameter.grad = g.copy()
            g = g + (decay * w[i] if parameter.ndim == 2 or vectors else 0)
            velocity[i] = momentum * velocity[i] + g
            w[i] = w[i] - 0.1 * (g + momentum * velocity[i] if nesterov else velocity[i])
        optimizer.step()
    for parameter, wanted in zip(layer.parameters(), w, strict=True):
        np.testing.assert_allclose(parameter.data, wanted, rtol=1e-5, atol=1e-6)


def test_only_parameters_with_a_gradient_move() -> None:
    used, unused = Tensor([[1.0]], requires_grad=True), Tensor([[1.0]], requires_grad=True)
    optimizer = SGD([used, unused], lr=0.5, momentum=0.9, weight_decay=0.5)
    ops.sum(used).backward()
    optimizer.step()
    assert (used.item(), unused.item()) == (0.25, 1.0)
    optimizer.zero_grad()
    assert not used.has_gradient


def test_nesterov_without_momentum_is_refused() -> None:
    with pytest.raises(InputError, match="nesterov needs a momentum above 0"):
        SGD([Tensor([1.0], requires_grad=True)], nesterov=True)
