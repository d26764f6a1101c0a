"""Groups of parameters: what may be given, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, Tensor
from minigrad.optim import SGD, AdamW


def test_a_group_of_one_tensor_needs_no_list() -> None:
    w = Tensor([1.0], requires_grad=True)
    w.grad = np.ones(1, np.float32)
    SGD([{"params": w, "lr": 0.25}], lr=1.0).step()
    assert w.item() == 0.75


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda w: AdamW([{"params": [w]}, {"params": [w]}]), "a parameter is in two groups"),
        (lambda w: AdamW([{"params": [w], "learning_rate": 1.0}]), "unknown setting of a group 'learning_rate'"),
        (lambda w: AdamW(w), "an optimizer trains leaves, and a tensor of shape \\(\\) was computed from others"),
        (lambda w: SGD([2 * w], lr=0.1), "trains leaves"),
        (lambda w: AdamW([{"params": [w], "decay_vectors": "no"}]), "decay_vectors"),
        (lambda w: AdamW([w], decay_vectors=5), "decay_vectors"),
        (lambda w: AdamW([{"weights": [w]}]), "groups of them as dictionaries: {'params'"),
        (lambda w: AdamW([w, {"params": [w]}]), "not both"),
        (lambda w: AdamW([{"params": [w], "lr": 1.0}], lr=0.0), r"an lr above 0, not 0\.0"),
        (lambda w: AdamW([w.data]), r"takes tensors, as model\.parameters\(\) returns them, not ndarray"),
        (lambda w: SGD([("w", w)]), "not tuple"),
    ],
)
def test_groups_that_cannot_be_used_are_refused(make: Callable[[Tensor], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(Tensor([1.0], requires_grad=True))


def test_the_rates_of_groups_follow_a_rate_that_is_changed_on_the_optimizer() -> None:
    one, other = (Tensor(np.ones(1), requires_grad=True) for _ in range(2))
    optimizer = SGD([{"params": [one], "lr": 0.1}, {"params": [other]}], lr=1.0, momentum=0.0, weight_decay=0.0)
    optimizer.lr = 1e-3
    (one + other).sum().backward()
    optimizer.step()
    np.testing.assert_allclose([1 - one.item(), 1 - other.item()], [1e-4, 1e-3], rtol=1e-3)
