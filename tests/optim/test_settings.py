"""Settings and parameters that an optimizer cannot use are refused where they are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, Tensor
from minigrad.optim import SGD, AdamW, Muon, Optimizer


def leaf(values: Any = (1.0, 2.0)) -> Tensor:
    return Tensor(np.asarray(values, np.float32), requires_grad=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda w: AdamW([w], lr=-1), r"lr of AdamW takes a finite number of at least 0, not -1"),
        (lambda w: AdamW([w], lr=math.nan), r"lr of AdamW .*, not nan"),
        (lambda w: SGD([w], lr=math.inf), r"lr of SGD .*, not inf"),
        (lambda w: AdamW([w], lr="fast"), r"lr of AdamW .*, not 'fast'"),
        (lambda w: AdamW([w], betas=(1.0, 0.9)), r"beta1 of AdamW takes a finite number of at least 0 and at most"),
        (lambda w: AdamW([w], betas=(0.9, 2.0)), r"beta2 of AdamW .*, not 2\.0"),
        (lambda w: AdamW([w], betas=(0.9, 0.999999999)), r"beta2 of AdamW .*, not 0\.999999999"),  # 1 in float32
        (lambda w: Muon([w], betas=(-0.1, 0.9), matrices=[]), r"beta1 of Muon .*, not -0\.1"),
        (lambda w: AdamW([w], betas=0.9), r"betas of AdamW are two numbers, as in \(0\.9, 0\.95\), not 0\.9"),
        (lambda w: AdamW([w], eps=-1), r"eps of AdamW takes a finite number of at least 1e-19, not -1"),
        (lambda w: AdamW([w], eps=0.0), r"eps of AdamW .*, not 0\.0"),
        (lambda w: AdamW([w], weight_decay=-0.1), r"weight_decay of AdamW .* at least 0, not -0\.1"),
        (lambda w: SGD([w], momentum=1.0), r"momentum of SGD .* at least 0 and at most 0\.9999999, not 1\.0"),
        (lambda w: SGD([w], momentum=math.nan), r"momentum of SGD .*, not nan"),
        (lambda w: SGD([w], momentum=0.9, nesterov="no"), r"nesterov of SGD takes true or false, not 'no'"),
        (lambda w: SGD([{"params": [w], "lr": -2.0}], lr=1.0), r"lr of SGD .*, not -2\.0"),
        (lambda w: SGD([{"params": [w], "weight_decay": math.nan}]), r"weight_decay of SGD .*, not nan"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(make: Callable[[Tensor], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(leaf())


@pytest.mark.parametrize("lr", [math.nan, -0.1, math.inf])
@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_a_learning_rate_of_a_step_is_checked_and_nothing_changes(kind: Callable[..., Optimizer], lr: float) -> None:
    w = leaf()
    w.grad = np.ones(2, np.float32)
    optimizer = kind([w])
    with pytest.raises(InputError, match=r"lr of \w+ takes a finite number of at least 0"):
        optimizer.step(lr=lr)
    assert w.tolist() == [1.0, 2.0]
    assert optimizer.steps == 0


def test_numbers_of_numpy_are_settings() -> None:
    w = leaf()
    w.grad = np.ones(2, np.float32)
    SGD([w], lr=np.float32(0.5), momentum=np.float64(0.5)).step(lr=np.float32(1.0))
    assert w.tolist() == [0.0, 1.0]


def test_parameters_that_share_memory_are_refused() -> None:
    memory = np.zeros(6, np.float32)
    whole, part, rest = (Tensor(each, requires_grad=True) for each in (memory, memory[2:4], memory[4:]))
    for pair in ([whole, part], [part, whole], [{"params": [rest]}, {"params": [whole]}]):
        with pytest.raises(InputError, match=r"two parameters, of shapes \(\d,\) and \(\d,\), share memory"):
            AdamW(pair)
    AdamW([rest, part])


def test_parameters_that_cannot_be_updated_in_place_are_refused() -> None:
    fixed = np.zeros(3, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(InputError, match=r"of shape \(3,\) is read-only"):
        AdamW([Tensor(fixed, requires_grad=True)])
    with pytest.raises(InputError, match="is float16, not float32 or float64"):
        AdamW([Tensor(np.zeros(3, np.float16), requires_grad=True)])


def test_a_read_only_gradient_is_used() -> None:
    w, gradient = leaf(), np.ones(2, np.float32)
    gradient.flags.writeable = False
    w.grad = gradient
    for optimizer in (SGD([w], lr=1.0), AdamW([w], lr=1.0)):
        optimizer.step()
    w.grad = gradient
    optimizer.step()
    assert (w.data < 0).any()
