"""Small pieces of work for the tests of the profile, and the profile of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad import Tensor
from minigrad.autograd.profile import Profile


def leaf(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32), requires_grad=True)


def profiled(work: Callable[[], Any]) -> Profile:
    measured = Profile()
    with measured:
        work()
    return measured


def backward(y: Tensor) -> None:
    y.backward(np.ones(y.shape))
